"""Images that stand for others, against the same found from the embeddings themselves."""

import sys

import numpy as np
import pytest

from tinytrain.heads.repeats import LEAST_BITS, MOST_BYTES, NEAR, Sketches

SIZE = LEAST_BITS


def images(seed=0, way=4, shots=9, burst=1, spread=1.0):
    """Embeddings of length 1 around classes: `burst` of each image in a row nearly the same; their labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(way), shots).astype(np.int32)
    own = rng.standard_normal((way * shots // burst, SIZE)).repeat(burst, axis=0)
    x = (
        rng.standard_normal((way, SIZE))[labels]
        + spread * own
        + 0.1 * rng.standard_normal((way * shots, SIZE))
    )
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), labels


def repeated(x, labels, batch=None):
    sketches = Sketches(len(x), x.shape[1])
    for first in range(0, len(x), batch or len(x)):
        part = slice(first, first + (batch or len(x)))
        sketches.add(x[part], labels[part], x.mean(axis=0))
    return sketches.repeated()


def by_definition(x, labels):
    """The same, one image and one bit after another."""
    bits, helped = (x > x.mean(axis=0)).tolist(), []
    for i, label in enumerate(labels):
        far = [np.mean([a != b for a, b in zip(bits[i], other, strict=True)]) for other in bits]
        mean = {k: np.mean([far[j] for j in range(len(x)) if labels[j] == k]) for k in set(labels) - {label}}
        own = [far[j] for j in range(len(x)) if labels[j] == label and j != i]
        rest = [f for f in own if f >= NEAR * np.percentile(own, 50, method="higher")]
        helped.append(int(np.mean(own) < min(mean.values())) - int(np.mean(rest) < min(mean.values())))
    return max(0.0, np.mean(helped))


@pytest.mark.parametrize("seed", range(4))
def test_the_fraction_is_that_of_the_definition(seed):
    x, labels = images(seed, burst=3, spread=2.0)
    assert repeated(x, labels) == pytest.approx(by_definition(x, labels))


def test_bursts_of_classes_that_overlap_feign_what_single_images_do_not():
    single = np.mean([repeated(*images(seed, spread=3.0)) for seed in range(10)])
    burst = np.mean([repeated(*images(seed, burst=3, spread=3.0)) for seed in range(10)])
    assert single < 0.05 and burst > 0.3


def test_bursts_of_classes_that_are_far_apart_feign_nothing():
    assert repeated(*images(burst=3, spread=0.3)) == 0


def test_short_embeddings_are_not_judged():
    x, labels = images(burst=3, spread=3.0)
    assert repeated(x, labels) > 0 == repeated(x[:, : LEAST_BITS - 1], labels)


def test_batches_change_nothing():
    x, labels = images(burst=3, spread=2.0)
    assert repeated(x, labels, batch=5) == repeated(x, labels)


def test_single_images_of_their_class_stand_for_nobody():
    x, _ = images(way=9, shots=1)
    assert repeated(x, np.arange(9, dtype=np.int32)) == 0


def test_of_very_many_images_the_first_ones_take_the_bytes_that_there_are():
    x, labels = images(way=4, shots=3000)
    order = np.random.default_rng(0).permutation(len(x))
    sketches = Sketches(len(x), SIZE)
    sketches.add(x[order], labels[order], x.mean(axis=0))
    taken = sum(map(sys.getsizeof, sketches._bits))
    assert 0.8 * MOST_BYTES < taken <= MOST_BYTES
    assert 0 <= sketches.repeated() <= 1
