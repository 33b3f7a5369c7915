"""Heads against their formulas in float64, in batches, inside memory that is given."""

import numpy as np
import pytest
from cases import each
from headdata import unit

from tinytrain import kernels
from tinytrain.heads import cosine, scatter_head
from tinytrain.heads.calibration import LEAD_FRACTION, TEMPERATURES, softmax
from tinytrain.heads.head import Support
from tinytrain.heads.lda import RIDGE, Factored
from tinytrain.heads.registry import HEADS
from tinytrain.heads.triangle import Triangle

WAY, SIZE = 4, 12
LABELS = np.array([0, 1, 2, 3, 0, 1, 2, 0, 1, 0], np.int32)
SHOTS = np.bincount(LABELS)
BACKENDS = each("backend", ["auto", "numpy"])
SHRINKAGE = {"lda": 0.7, "mild-lda": 0.95, "slda": HEADS["slda"].shrinkage}
DIRECTIONS = ("cosine", "imprint")
KINDS = each("kind", [*DIRECTIONS, *SHRINKAGE])
DIRECTION_KINDS = each("kind", DIRECTIONS)
LDA_KINDS = each("kind", list(SHRINKAGE))


def embeddings(view=0):
    rng = np.random.default_rng(view)
    centres = np.random.default_rng(99).standard_normal((WAY, SIZE))
    return (2 * centres[LABELS] + rng.standard_normal((len(LABELS), SIZE))).astype("f")


def batches(views, size=3):
    """Like the engine's: of length 1, and each batch overwrites the one before."""

    def stream():
        memory = np.empty((size, SIZE), np.float32)
        for view in views:
            for first in range(0, len(LABELS), size):
                part = unit(embeddings(view))[first : first + size]
                memory[: len(part)] = part
                yield memory[: len(part)], LABELS[first : first + size]

    return stream


def blank(kind):
    return {b.name: b.allocate(0xFF) for b in HEADS[kind].buffers(WAY, SIZE)}


def fitted(kind, views=(0,), backend="auto"):
    return HEADS[kind].fit(kernels.load(backend), blank(kind), Support(batches(views), batches((0,)), SHOTS))


def fitted_to(kind, stream, shots):
    return HEADS[kind].fit(kernels.load(), blank(kind), Support(stream, stream, shots))


def means(x, labels):
    return np.stack([x[labels == k].mean(axis=0) for k in range(WAY)])


def covariance(x, labels, kind):
    """Within classes, shrunk to a multiple of the identity."""
    shrinkage = SHRINKAGE[kind]
    centred = x - means(x, labels)[labels]
    s = centred.T @ centred / len(x)
    return (1 - shrinkage) * s + (shrinkage * np.trace(s) / SIZE + 1e-7) * np.eye(SIZE)


def excess(x, labels, kind):
    """What the scatter of one image adds to mean^T S^-1 mean: the trace of S^-1 times the covariance."""
    centred = x - means(x, labels)[labels]
    return np.trace(np.linalg.inv(covariance(x, labels, kind)) @ centred.T @ centred) / len(x)


def offsets(m, inverse, excess, images):
    return -0.5 * (np.einsum("kd,de,ke->k", m, inverse, m) - excess / images)


@BACKENDS
@DIRECTION_KINDS
def test_the_cosine_head_compares_with_mean_directions(kind, backend):
    x = unit(embeddings().astype(float))
    head = fitted(kind, backend=backend)
    np.testing.assert_allclose(head.means, means(x, LABELS), atol=1e-5)
    np.testing.assert_allclose(head.logits(embeddings()), x @ unit(means(x, LABELS)).T, atol=1e-5)


@BACKENDS
@LDA_KINDS
@each("views", [(0,), (0, 1, 2)])
def test_an_lda_head_is_the_shrunk_discriminant_of_all_views(kind, backend, views):
    x = unit(np.concatenate([embeddings(v) for v in views]).astype(float))
    labels = np.tile(LABELS, len(views))
    head = fitted(kind, views, backend)
    m, inverse = means(x, labels), np.linalg.inv(covariance(x, labels, kind))
    np.testing.assert_allclose(head.weights, m @ inverse, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(head.offsets, offsets(m, inverse, excess(x, labels, kind), SHOTS), rtol=1e-3)
    assert head.counts.tolist() == np.bincount(labels).tolist()


def test_a_class_of_one_image_is_answered_as_often_as_classes_of_ten():
    """Images of every class alike, drawn from the same distribution."""
    rng = np.random.default_rng(3)
    shots, found = np.array([1, 10, 10, 10]), np.zeros(WAY)
    labels = np.repeat(np.arange(WAY, dtype=np.int32), shots)
    for _ in range(40):
        centres = rng.standard_normal((WAY, SIZE))
        images = (centres[labels] + rng.standard_normal((len(labels), SIZE))).astype("f")
        queries = np.repeat(centres, 25, axis=0) + rng.standard_normal((25 * WAY, SIZE))

        def stream(images=images):
            yield unit(images), labels

        head = fitted_to("lda", stream, shots)
        found += np.bincount(head.logits(queries.astype("f")).argmax(axis=1), minlength=WAY)
    assert found[0] / found.sum() == pytest.approx(1 / WAY, abs=0.05)


@BACKENDS
def test_images_that_are_all_alike_leave_nothing_to_correct(backend):
    factor = np.sqrt(np.float32(RIDGE)) * np.eye(SIZE, dtype="f")[np.tril_indices(SIZE)]
    found = Factored(Triangle(kernels.load(backend), factor), 0.7, RIDGE)
    assert found.excess == pytest.approx(0, abs=1e-4)


def left_out_logits(kind):
    """(logits, label) in float64 of every image that is not alone, itself taken out of its class mean."""
    x = unit(embeddings().astype(float))
    inverse = None if kind in DIRECTIONS else np.linalg.inv(covariance(x, LABELS, kind))
    for i, label in enumerate(LABELS):
        if (label == LABELS).sum() < 2:
            continue
        m = means(x, LABELS)
        m[label] = x[(label == LABELS) & (np.arange(len(x)) != i)].mean(axis=0)
        if kind in DIRECTIONS:
            yield unit(m) @ x[i], label
        else:
            left = SHOTS - (np.arange(WAY) == label)
            yield m @ inverse @ x[i] + offsets(m, inverse, excess(x, LABELS, kind), left), label


@KINDS
def test_leave_one_out_takes_each_image_out_of_its_own_class_mean(kind):
    right = [logits.argmax() == label for logits, label in left_out_logits(kind)]
    assert fitted(kind).left_out == pytest.approx(np.mean(right))


@BACKENDS
@KINDS
def test_what_is_left_out_leaves_the_logit_of_a_class_with_one_image_less(kind, backend, monkeypatch):
    found, module = [], cosine if kind in DIRECTIONS else scatter_head

    true = module.calibrated

    def calibrated(head, its_means, support, own_logit, **unseen):
        for e, label in zip(unit(embeddings()), LABELS, strict=True):
            if SHOTS[label] > 1:
                others = (means(unit(embeddings()), LABELS)[label] * SHOTS[label] - e) / (SHOTS[label] - 1)
                found.append(own_logit(others, e, SHOTS[label] - 1))
        return true(head, its_means, support, own_logit, **unseen)

    monkeypatch.setattr(module, "calibrated", calibrated)
    fitted(kind, backend=backend)
    assert found == pytest.approx([logits[label] for logits, label in left_out_logits(kind)], rel=1e-3)


@KINDS
@each("share", [LEAD_FRACTION, 1e-3])
def test_the_temperature_is_a_share_of_the_lead_of_the_own_class_or_what_left_out_images_ask(
    kind, share, monkeypatch
):
    monkeypatch.setattr("tinytrain.heads.calibration.LEAD_FRACTION", share)
    head = fitted(kind)
    logits, own = head.logits(embeddings()), np.eye(WAY, dtype=bool)[LABELS]
    lead = logits[own].mean() - logits[~own].mean()
    found = list(left_out_logits(kind))
    right = np.mean([logits.argmax() == label for logits, label in found])
    sure = [np.mean([softmax(logits / t).max() for logits, _ in found]) for t in TEMPERATURES.astype(float)]
    modest = TEMPERATURES[np.array(sure) <= right][0]
    assert head.temperature == pytest.approx(max(share * lead, modest), rel=1e-4)


@KINDS
def test_labels_that_mean_nothing_give_no_confidence(kind):
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((40, SIZE)).astype("f"), np.repeat(np.arange(WAY, dtype=np.int32), 10)

    def stream():
        yield unit(x), labels

    head = fitted_to(kind, stream, np.full(WAY, 10))
    assert head.left_out < 0.5
    sure = head.probabilities(rng.standard_normal((200, SIZE)).astype("f")).max(axis=1)
    assert sure.mean() < head.left_out + 0.15


def test_the_lda_head_is_solved_inside_the_given_memory(monkeypatch):
    """numpy's solvers take workspaces of their own."""
    for name in ("solve", "inv", "cholesky"):
        monkeypatch.setattr(np.linalg, name, None)
    assert np.isfinite(fitted("lda", backend="numba").weights).all()


def test_single_images_cannot_be_left_out():
    one = np.arange(WAY, dtype=np.int32)

    def stream():
        yield unit(embeddings())[one], one

    head = fitted_to("cosine", stream, np.ones(WAY))
    assert head.left_out is None and 0 < head.temperature < 1


def test_images_that_all_look_alike_give_no_confidence():
    def stream():
        yield unit(np.ones((WAY, SIZE), np.float32)), np.arange(WAY, dtype=np.int32)

    head = fitted_to("cosine", stream, np.ones(WAY))
    assert head.temperature == TEMPERATURES[-1]
    np.testing.assert_allclose(head.probabilities(np.ones((1, SIZE), "f")), 1 / WAY, rtol=1e-5)


def test_probabilities_are_a_softmax_at_the_fitted_temperature():
    x, zero = embeddings(), np.zeros(WAY, "f")
    weights = np.random.default_rng(1).standard_normal((WAY, SIZE)).astype("f")
    warm, cold = (
        cosine.CosineHead(cosine.METHOD, weights, zero, zero, weights, temperature=t) for t in (1.0, 0.1)
    )
    np.testing.assert_allclose(warm.probabilities(x).sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(warm.probabilities(x), softmax(warm.logits(x)))
    assert (cold.probabilities(x).max(axis=1) >= warm.probabilities(x).max(axis=1)).all()
    assert (cold.probabilities(x).argmax(axis=1) == warm.probabilities(x).argmax(axis=1)).all()


def test_a_verdict_below_the_confidence_that_is_asked_for_is_none_of_the_classes():
    head, (x, *_) = fitted("lda"), embeddings()
    verdict = head.verdict(x)
    probabilities = head.probabilities(x[None])[0]
    assert not verdict.rejected and verdict.label == probabilities.argmax()
    assert verdict.confidence == probabilities.max()
    assert not head.verdict(x, verdict.confidence).rejected
    assert head.verdict(x, verdict.confidence + 1e-6).rejected


@KINDS
def test_a_head_counts_the_views_that_stand_for_an_image(kind):
    assert [fitted(kind, views).views for views in ((0,), (0, 1, 2))] == [1, 3]


def test_the_lengths_of_means_bring_them_back_from_cosine_prototypes():
    head, lengths = fitted("cosine"), np.empty(WAY, np.float32)
    cosine.lengths_of(head.means, lengths)
    again = head.answering().with_means(lengths, np.empty_like(head.means))
    np.testing.assert_allclose(again.means, head.means, rtol=1e-6)


def test_a_head_that_only_answers_answers_the_same_without_means():
    head = fitted("lda")
    assert set(head.answering().tensors()) == {"weights", "offsets", "counts"}
    assert (head.answering().logits(embeddings()) == head.logits(embeddings())).all()
