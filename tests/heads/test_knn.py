"""Condensing nearest neighbours: Hart's rule, what is added to it, cap and eviction, and how few are kept."""

import numpy as np
import pytest
from headdata import unit32

from tinytrain import kernels
from tinytrain.heads.head import Support
from tinytrain.heads.knn import CAP, IDENTITY, METHOD, Knn, whitened
from tinytrain.heads.scatter import share_of_image
from tinytrain.pipeline.head_conformance import fitted, made_up


class Hart(Knn):
    """The rule of 1968 alone."""

    merges = metric = False
    passes = 8


def learnt(x, labels, method):
    def batches():
        for first in range(0, len(labels), 32):
            yield x[first : first + 32], labels[first : first + 32]

    way = int(labels.max()) + 1
    arrays = {b.name: b.allocate(0xFF) for b in method.buffers(way, x.shape[1])}
    return method.fit(kernels.load(), arrays, Support(batches, batches, np.bincount(labels)))


def condensed(x, labels):
    """Indices that Hart's rule keeps, written down as in the paper."""
    kept, added = [], True
    while added:
        added = False
        for i in range(len(labels)):
            if i not in kept:
                distances = [np.square(x[i] - x[k]).sum() for k in kept]
                if not kept or labels[kept[int(np.argmin(distances))]] != labels[i]:
                    kept, added = [*kept, i], True
    return kept


def test_without_additions_the_head_keeps_what_the_rule_keeps():
    task = made_up(4, 10, 12)
    noisy = unit32(task.embeddings + 0.38 * np.random.default_rng(0).standard_normal((48, 10)))
    kept, head = condensed(noisy, task.labels), learnt(noisy, task.labels, Hart())
    assert 4 < len(kept) < 24
    for k in range(4):
        prototypes = head.prototypes[k, : np.count_nonzero(head.counts[k])]
        np.testing.assert_array_equal(prototypes, noisy[[i for i in kept if task.labels[i] == k]])
    answers = head.logits(noisy)
    np.testing.assert_array_equal(answers.argmax(axis=1), task.labels)  # the rule is over when all are right
    closest = np.square(noisy[:, None] - noisy[kept]).sum(axis=2)
    np.testing.assert_allclose(answers.max(axis=1), 1 - closest.min(axis=1) / 2, atol=1e-5)


def digits():
    sets = pytest.importorskip("sklearn.datasets").load_digits()
    order = np.random.default_rng(0).permutation(len(sets.target))
    x, labels = unit32(sets.data[order]), sets.target[order].astype(np.int32)
    return (x[:600], labels[:600]), (x[600:], labels[600:])


def right(logits, labels):
    return float((logits.argmax(axis=1) == labels).mean())


def test_of_600_digits_the_rule_keeps_a_sixth_and_loses_a_few_points():
    (x, labels), (new, wanted) = digits()
    head = learnt(x, labels, Hart())
    full = labels[(new @ x.T).argmax(axis=1)]
    assert np.mean(full == wanted) > 0.97
    assert 60 < np.count_nonzero(head.counts) < 110
    assert 0.90 < right(head.logits(new), wanted) < np.mean(full == wanted)


def test_with_its_additions_the_head_keeps_fewer_digits_and_knows_more():
    (x, labels), (new, wanted) = digits()
    plain, head = learnt(x, labels, Hart()), learnt(x, labels, METHOD)
    assert np.count_nonzero(head.counts) < np.count_nonzero(plain.counts)
    assert right(head.logits(new), wanted) > right(plain.logits(new), wanted)
    assert head.counts.sum() == 600, "every image is in one mean"


def test_distances_are_those_of_the_shrunk_covariance():
    task = made_up(3, 8, 6)
    x, labels = task.embeddings.astype(float), task.labels
    head = learnt(task.embeddings, labels, METHOD)
    means = np.stack([x[labels == k].mean(axis=0) for k in range(3)])
    scatter = (x - means[labels]).T @ (x - means[labels])
    covariance = (scatter + IDENTITY * np.trace(scatter) / 18 * np.eye(8)) / (18 + IDENTITY * 8)
    a, b = (next(whitened(e[None].astype(np.float32), head.factor)) for e in x[:2])
    expected = (x[0] - x[1]) @ np.linalg.inv(covariance) @ (x[0] - x[1])
    assert np.square(a - b).sum() == pytest.approx(expected, rel=1e-4)


def test_a_recognised_image_moves_the_closest_prototype_to_the_mean_of_what_it_stands_for():
    task = made_up(2, 6, 1)
    head = learnt(task.embeddings, task.labels, METHOD).extended(2)
    near = unit32(task.embeddings[:1] + 0.05)
    head.update(kernels.load(), near, np.zeros(1, np.int32))
    assert head.counts[0].tolist() == [2] + [0] * (CAP - 1) and head.counts[1, 0] == 1
    both = np.stack(list(whitened(np.concatenate([task.embeddings[:1], near]), head.factor)))
    np.testing.assert_allclose(head.prototypes[0, 0], both.mean(axis=0), rtol=1e-4, atol=1e-4)


def test_at_the_cap_the_oldest_prototype_of_the_class_gives_way():
    """Images of class 0 that all look like class 1: each is mistaken, and becomes a prototype."""
    head = learnt(np.eye(40, dtype=np.float32)[:2], np.arange(2, dtype=np.int32), Hart()).extended(2)
    towards = unit32(np.eye(40)[1] + 0.5 * np.eye(40)[2:])
    head.update(kernels.load(), towards[: CAP - 1], np.zeros(CAP - 1, np.int32))
    assert (head.counts[0] == 1).all() and head.prototypes[0, 0, 0] == 1
    head.update(kernels.load(), towards[CAP : CAP + 1], np.zeros(1, np.int32))
    np.testing.assert_array_equal(head.prototypes[0], towards[[*range(CAP - 1), CAP]])
    assert (head.counts[0] == 1).all()
    np.testing.assert_array_equal(head.prototypes[1, 0], np.eye(40)[1])


def test_leaving_an_image_out_takes_it_out_of_its_mean():
    head = fitted(METHOD, kernels.load(), made_up(2, 6, 3))
    w = next(whitened(made_up(2, 6, 3).embeddings[:1], head.factor))
    mean, count = head.prototypes[0, 0], int(head.counts[0, 0])
    assert count == 3
    rest = (mean * count - w) / (count - 1)
    assert head.without(w, 0)[0] == pytest.approx(1 - np.square(w - rest).sum() / 2, rel=1e-3)


@pytest.mark.parametrize(("place", "value"), [((0, 0), 0), ((1, 0), -1), ((0, CAP - 1), 3)])
def test_counts_that_leave_a_gap_are_no_head(place, value):
    head = fitted(METHOD, kernels.load(), made_up(2, 6, 3)).extended(2)
    assert head.problem() is None
    head.counts[place] = value
    assert "head.counts" in head.problem()


def test_leaving_an_image_out_takes_it_out_of_the_covariance_too():
    """Against a head that was fitted without it, but with the same multiple of the identity."""
    way, size, shots = 3, 6, 5
    x, labels = made_up(way, size, shots).embeddings.astype(float), np.tile(np.arange(way), shots)
    head = learnt(x.astype(np.float32), labels.astype(np.int32), METHOD)
    assert (np.count_nonzero(head.counts, axis=1) == 1).all(), "a prototype of each class is its mean"
    means = np.stack([x[labels == k].mean(axis=0) for k in range(way)])
    total = len(x) + IDENTITY * size
    ridge = np.square(x - means[labels]).sum() / len(x) * IDENTITY / total * np.eye(size)
    for i in range(len(x)):
        rest = np.arange(len(x)) != i
        means = np.stack([x[rest & (labels == k)].mean(axis=0) for k in range(way)])
        away = (x - means[labels])[rest]
        inverse = np.linalg.inv(away.T @ away / total + ridge)
        expected = [1 - (x[i] - mean) @ inverse @ (x[i] - mean) / 2 for mean in means]
        w = next(whitened(x[i : i + 1].astype(np.float32), head.factor))
        found = head.without(w, labels[i], share_of_image(shots, total))
        assert found == pytest.approx(expected, rel=2e-3)
