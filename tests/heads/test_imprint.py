"""Weight imprinting: means of unit embeddings, in a stream as at once, and classes that stay."""

import numpy as np
import pytest
from cases import each
from headdata import embeddings, fitted

from tinytrain import kernels
from tinytrain.heads.cosine import IMPRINT as METHOD
from tinytrain.heads.moments import MOST

WAY, SIZE = 5, 30


def test_weights_are_the_directions_of_the_means_of_unit_embeddings():
    x, labels = embeddings(60, SIZE, way=WAY)
    head = fitted(METHOD, x, labels)
    means = np.stack([x[labels == k].mean(axis=0) for k in range(WAY)])
    np.testing.assert_allclose(head.weights, means / np.linalg.norm(means, axis=1)[:, None], atol=1e-6)
    assert not head.offsets.any()


@pytest.mark.parametrize("seed", range(3))
def test_imprinting_one_by_one_is_imprinting_at_once_in_any_order(seed):
    x, labels = embeddings(300, SIZE, way=WAY)
    order = np.random.default_rng(seed).permutation(np.arange(20, 300))
    head = fitted(METHOD, x[:20], labels[:20]).extended(WAY)
    for k in order:
        head.update(kernels.load(), x[k : k + 1].astype("f"), labels[k : k + 1])
    whole = fitted(METHOD, x, labels)
    np.testing.assert_allclose(head.weights, whole.weights, atol=1e-6)
    assert head.counts.tolist() == whole.counts.tolist()


@each("size", [SIZE, 160, 1280])
@each("n", [1, 2, 7, 64])
def test_classes_that_are_added_leave_every_bit_of_the_logits_of_the_others(size, n):
    x, labels = embeddings(40, size, way=2)
    new, _ = embeddings(n, size, seed=1, way=2)
    head, new = fitted(METHOD, x, labels), new.astype("f")
    before = head.logits(new)
    for way in range(3, 20):
        head = head.extended(way)
        head.update(kernels.load(), x[:3].astype("f"), np.full(3, way - 1, np.int32))
        assert head.logits(new)[:, :2].tobytes() == before.tobytes()


def test_counts_stop_where_they_would_turn_negative():
    x, labels = embeddings(20, SIZE, way=2)
    head = fitted(METHOD, x, labels).extended(2)
    head.counts[:] = MOST - 1
    head.update(kernels.load(), x.astype("f"), labels)
    assert (head.counts == MOST).all() and head.is_finite() and head.problem() is None
