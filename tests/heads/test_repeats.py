"""Images that stand for others, against the same found from the embeddings themselves."""

import sys
import tracemalloc

import numpy as np
import pytest
from cases import each
from headdata import unit32

from tinytrain.heads.repeats import FAR, LEAST_BITS, MOST_BYTES, NEAR, Sketches, copies_among

SIZE = LEAST_BITS


def images(seed=0, way=4, shots=9, burst=1, spread=1.0, frames=0.1, size=SIZE):
    """Embeddings of length 1 around classes: `burst` of each image in a row nearly the same; their labels.

    `frames` is how much those of a burst differ.
    """
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(way), shots).astype(np.int32)
    own = rng.standard_normal((way * shots // burst, size)).repeat(burst, axis=0)
    x = rng.standard_normal((way, size))[labels] + spread * own
    return unit32(x + frames * rng.standard_normal((way * shots, size))), labels


def repeated(x, labels, batch=None):
    sketches = Sketches(x.shape[1])
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


@each("seed", range(4))
def test_the_fraction_is_that_of_the_definition(seed):
    x, labels = images(seed, burst=3, spread=2.0, frames=1.4, size=256)
    assert not copies_among(x, labels).any() and by_definition(x, labels) > 0
    assert repeated(x, labels) == pytest.approx(by_definition(x, labels))


def test_bursts_of_classes_that_overlap_feign_what_single_images_do_not():
    single, burst, copied = (
        np.mean([repeated(*images(seed, burst=b, spread=3.0, frames=f, size=256)) for seed in range(10)])
        for b, f in ((1, 0.1), (3, 2.0), (3, 0.1))
    )
    assert single < 0.05 and burst > 0.2
    assert copied < 0.05, "copies are left out before"


def test_bursts_of_classes_that_are_far_apart_feign_nothing():
    assert repeated(*images(burst=3, spread=0.3)) == 0


def test_short_embeddings_are_not_judged():
    x, labels = images(burst=3, spread=3.0, frames=1.5)
    assert repeated(x, labels) > 0 == repeated(x[:, : LEAST_BITS - 1], labels)
    x, labels = images(burst=3, spread=3.0)
    assert copies_among(x, labels).any() and not copies_among(x[:, : LEAST_BITS - 1], labels).any()


def test_batches_change_nothing():
    x, labels = images(burst=3, spread=2.0, frames=1.4)
    assert repeated(x, labels, batch=5) == repeated(x, labels)


def test_single_images_of_their_class_stand_for_nobody():
    x, _ = images(way=9, shots=1)
    assert repeated(x, np.arange(9, dtype=np.int32)) == 0


def test_of_very_many_images_the_first_ones_take_the_bytes_that_there_are():
    x, labels = images(way=4, shots=300)
    order = np.random.default_rng(0).permutation(len(x))
    sketches = Sketches(SIZE)
    sketches.add(x[order], labels[order], x.mean(axis=0))
    kept = [bits for groups in sketches._classes.values() for bits in groups.seen()]
    assert 0.8 * MOST_BYTES < sum(map(sys.getsizeof, kept)) <= MOST_BYTES
    assert 0 <= sketches.repeated() <= 1


def test_sketches_and_their_groups_take_little_more_than_their_bytes():
    x, labels = images(way=20, shots=40, size=160)
    tracemalloc.start()
    sketches = Sketches(x.shape[1])
    sketches.add(x, labels, x.mean(axis=0))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 2 * MOST_BYTES


# ---- what heads do not see -------------------------------------------------------------------------


def test_of_a_burst_the_middle_frame_stays():
    for seed in range(4):
        x, labels = images(seed, shots=35, burst=7, spread=2.0, size=160)
        np.testing.assert_array_equal(~copies_among(x, labels), np.arange(len(x)) % 7 == 3)


def test_of_exact_copies_one_stays_wherever_they_are():
    x, labels = images(spread=2.0, size=160)
    order = np.random.default_rng(0).permutation(4 * len(x)) % len(x)
    left = order[~copies_among(x[order], labels[order])]
    assert sorted(left) == list(range(len(x)))


def test_images_that_were_taken_one_by_one_all_stay():
    for seed in range(10):
        assert not copies_among(*images(seed, spread=1.5, size=160)).any()


@pytest.mark.parametrize("again", [2, 4])
def test_few_copies_in_a_class_stay_with_it_and_those_of_other_classes_do_not(again):
    x, labels = images(spread=2.0, size=160)
    chosen = np.r_[0 : len(x), 0:again, 9:18]
    copies = copies_among(x[chosen], labels[chosen])
    assert copies[labels[chosen] == 0].any() == (again == 4), "a quarter are many"
    assert np.count_nonzero(copies[labels[chosen] == 1]) == 9 and not copies[labels[chosen] > 1].any()


def at(angles, size=2000):
    """Images of a class at these angles in a plane, as fractions of half a turn, and another class."""
    a, b, *others = np.random.default_rng(0).standard_normal((8, size))
    x = [np.cos(np.pi * angle) * a + np.sin(np.pi * angle) * b for angle in angles]
    labels = np.repeat([0, 1], [len(x), len(others)]).astype(np.int32)
    return unit32(np.stack([*x, *others])), labels


def kept_at(*angles):
    """Which images at these angles heads see, around the middle of two random directions."""
    x, labels = at(angles)
    sketches = Sketches(x.shape[1])
    sketches.add(x, labels, np.zeros_like(x[0]))
    return np.flatnonzero(~sketches.copies(labels)[: len(angles)]).tolist()


def test_two_groups_are_one_if_an_image_is_alike_both_unless_their_first_ones_are_apart():
    assert kept_at(0, 0.2, 0.1, 0.9, 0.9) == [1, 4], "the third joins the first two"
    assert kept_at(0, 0.27, 0.135, 0.9, 0.9) == [1, 2, 4]


def test_where_no_group_is_apart_from_the_first_the_class_may_be_one_burst():
    assert kept_at(0, 0.01, 0.22, 0.23) == [2]
    assert kept_at(0, 0.01, 0.28, 0.29) == [1, 3]


def film(length: float, frames=40, size=160, seed=0):
    """Frames that turn by `length` radians from one direction to another, and a class beside them."""
    rng = np.random.default_rng(seed)
    a, b, other = rng.standard_normal((3, size))
    angles = np.linspace(0, length, frames)[:, None]
    turned = np.cos(angles) * a + np.sin(angles) * b
    labels = np.repeat([0, 1], [frames, 9]).astype(np.int32)
    return unit32(np.concatenate([turned, other + rng.standard_normal((9, size))])), labels


def test_of_a_film_that_ends_elsewhere_an_image_stays_for_each_stretch_that_looks_alike():
    kept = [np.count_nonzero(~copies_among(*film(np.pi * k * FAR))[:40]) for k in (0.5, 2, 4)]
    assert kept[0] == 1 < kept[1] < kept[2] < 12


def test_if_all_images_of_a_class_may_be_one_burst_one_stays():
    x, labels = images(shots=12, burst=12, spread=2.0, frames=0.8, size=160)
    assert np.count_nonzero(~copies_among(x, labels)) == 4


def test_the_same_image_in_two_classes_is_no_copy():
    x, labels = images(spread=2.0, size=160)
    assert not copies_among(np.concatenate([x, x]), np.concatenate([labels, labels + 4])).any()


def test_copies_are_found_among_more_images_than_there_are_bytes_for():
    x, labels = images(way=2, shots=1200, burst=60, spread=2.0, size=160)
    order = np.random.default_rng(0).permutation(len(x))
    assert np.count_nonzero(~copies_among(x[order], labels[order])) == 40
