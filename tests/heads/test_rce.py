"""The head around the neurons: patterns, verdicts, what is full, and files that do not fit."""

import numpy as np
import pytest
from headdata import unit32

from tinytrain import kernels
from tinytrain.heads.head import Support
from tinytrain.heads.neurons import MAX_NEURONS
from tinytrain.heads.rce import METHOD, NEURONS_PER_CLASS
from tinytrain.pipeline.head_conformance import fitted, made_up


@pytest.fixture(scope="module")
def head():
    return fitted(METHOD, kernels.load(), made_up(5, 64, 10))


def test_bytes_of_a_neuron_are_those_of_the_chip():
    """A pattern, two registers of 16 bits, a context."""
    for way, size, length in ((5, 160, 160), (5, 1000, 256), (100, 160, 160)):
        neurons = min(MAX_NEURONS, NEURONS_PER_CLASS * way)
        found = {b.name: b.nbytes for b in METHOD.buffers(way, size)}
        assert found.pop("centre") == 4 * size and found.pop("step") == 4 and found.pop("counts") == 4 * way
        assert sum(found.values()) == neurons * (length + 2 + 2 + 1)


def test_an_image_is_identified_uncertain_or_unknown():
    task, one = made_up(2, 64, 10), np.eye(64, dtype=np.float32)[0]
    head = fitted(METHOD, kernels.load(), task)
    first, second = (task.embeddings[task.labels == k][0] for k in (0, 1))
    assert [head.verdict(e).state for e in (first, second)] == ["identified"] * 2
    assert [head.verdict(e).label for e in (first, second)] == [0, 1]
    assert head.verdict(-first - second).state == "unknown"
    assert head.verdict(one).state == "unknown", "a class is named, and not believed"
    wide = head.extended(2)
    wide.fields.view("<u2")[:] = 0x7FFF
    assert wide.verdict(first).state == "uncertain" and wide.verdict(first).label == 0


def test_the_closest_neuron_is_named_also_if_none_fires(head):
    rng = np.random.default_rng(1)
    strange = unit32(rng.standard_normal((20, 64)))
    assert {head.verdict(e).state for e in strange} == {"unknown"}
    for e, label in zip(strange, head.logits(strange).argmax(axis=1), strict=True):
        found, distances = head.neurons.distances(head.pattern(e), 1)
        nearest = distances == distances.min()
        assert label + 1 in head.neurons.categories[found[nearest]] & 0x7FFF


def test_patterns_lie_around_the_middle_and_keep_distances(head):
    x = made_up(5, 64, 10, seed=2).embeddings
    patterns = np.stack([head.pattern(e) for e in x]).astype(int)
    assert abs(patterns.mean() - 128) < 5 and patterns.min() >= 0 and patterns.max() <= 255
    apart, real = np.abs(patterns[0] - patterns[1:]).sum(axis=1), np.abs(x[0] - x[1:]).sum(axis=1)
    assert np.corrcoef(apart, real)[0, 1] > 0.99
    assert (head.pattern(3 * x[0]) == head.pattern(x[0])).all()


def test_embeddings_longer_than_a_pattern_are_folded_and_told_apart():
    task = made_up(4, 700, 5)
    head = fitted(METHOD, kernels.load(), task)
    assert head.patterns.shape[1] == 256 and head.embedding_size == 700
    new = made_up(4, 700, 10, seed=3)
    assert (head.logits(new.embeddings).argmax(axis=1) == new.labels).all()


def test_a_class_that_needs_a_neuron_takes_the_oldest_of_the_class_with_most():
    task = made_up(2, 32, 2)
    head = fitted(METHOD, kernels.load(), task).extended(2)
    rng, n = np.random.default_rng(0), len(head.patterns)
    strange = unit32(rng.standard_normal((2 * n, 32)))
    head.update(kernels.load(), strange, np.zeros(2 * n, np.int32))
    categories = head.neurons.categories & 0x7FFF
    assert np.count_nonzero(categories) == n and np.bincount(categories)[1] > n - 5
    oldest = head.patterns[(categories == 1).argmax()].copy()
    head.update(kernels.load(), -task.embeddings[task.labels == 1][:1], np.ones(1, np.int32))
    categories = head.neurons.categories & 0x7FFF
    assert categories[-1] == 2 and not (head.patterns == oldest).all(axis=1).any()


def test_a_file_with_a_category_beyond_its_classes_is_no_head(head):
    spoilt = head.extended(5)
    assert spoilt.problem() is None
    spoilt.categories.view("<u2")[3] = 6
    assert "category 6, the classes end at 5" in spoilt.problem()


def test_images_keep_the_order_in_which_they_are_learnt():
    """Two passes in the order of the batches: the oracle is the machine itself."""
    task = made_up(3, 16, 8)
    head = fitted(METHOD, kernels.load(), task)

    def batches():
        yield task.embeddings, task.labels

    arrays = {b.name: b.allocate() for b in METHOD.buffers(3, 16)}
    again = METHOD.fit(kernels.load(), arrays, Support(batches, batches, np.bincount(task.labels)))
    empty = again.extended(3)
    for name in ("patterns", "fields", "categories", "contexts"):
        empty.tensors()[name].fill(0)
    for _ in range(2):
        for e, label in zip(task.embeddings, task.labels, strict=True):
            empty.neurons.learn(again.pattern(e), int(label) + 1)
    assert (empty.fields == again.fields).all() and (empty.patterns == again.patterns).all()
    assert np.abs(again.centre - head.centre).max() < 1e-6
