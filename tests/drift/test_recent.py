"""The last labelled images of a stream, and heads that are fitted to those after a change."""

import numpy as np
import pytest
from cases import each

from tinytrain import kernels as kernel_table
from tinytrain.drift.detector import DRIFT, Cusum
from tinytrain.drift.recent import Recent, fitted, refitted
from tinytrain.heads.registry import HEADS, find_head

KERNELS = kernel_table.load()
WAY, SIZE = 3, 16
CENTRES = np.random.default_rng(0).standard_normal((WAY, SIZE))


def images(labels, seed: int = 1) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((len(labels), SIZE))
    found = CENTRES[labels] + 0.3 * noise
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def filled(labels, capacity: int = 10) -> tuple[Recent, np.ndarray]:
    recent, embeddings = Recent(SIZE, capacity), images(labels)
    for e, label in zip(embeddings, labels, strict=True):
        recent.add(e, label)
    return recent, embeddings


@each("count", [0, 3, 10, 25])
@each("added", [4, 10, 23])
def test_the_last_images_come_oldest_first_however_often_the_ring_went_round(added, count):
    labels = np.arange(added) % WAY
    recent, embeddings = filled(labels)
    got, got_labels = recent.last(count)
    expected = min(count, added, 10)
    assert len(recent) == min(added, 10) and len(got) == expected
    assert np.allclose(got, embeddings[added - expected :], atol=1e-6)
    assert np.array_equal(got_labels, labels[added - expected :])


def test_images_are_kept_with_length_1_in_as_many_bytes_as_stated():
    recent = Recent(SIZE, 7)
    recent.add(100 * images([0])[0], 0)
    assert np.linalg.norm(recent.last(1)[0]) == pytest.approx(1)
    assert recent.embeddings.nbytes + recent.labels.nbytes == 7 * (SIZE + 1) * 4


@each("name", HEADS)
def test_a_refitted_head_is_that_of_the_images_since_the_change_and_can_be_updated(name):
    labels = np.array([0, 1, 2, 1, 0, 2, 2, 1, 0, 0])
    recent, embeddings = filled(labels)
    old = fitted(find_head(name), KERNELS, images([0, 1, 2], 5), np.array([0, 1, 2])).extended(WAY)
    found = refitted(old, KERNELS, recent, 6, WAY)
    expected = fitted(find_head(name), KERNELS, embeddings[4:], labels[4:])
    test = images(np.arange(30) % WAY, 7)
    assert np.allclose(found.logits(test), expected.logits(test), rtol=1e-3, atol=1e-3)
    found.update(KERNELS, images([0], 8), np.array([0], np.int32))
    assert found.is_finite() and np.isfinite(found.logits(test)).all()


def test_corrections_of_one_thing_again_and_again_are_one_image_to_a_refitted_head():
    size, labels = 160, np.arange(12) % 2
    once = np.random.default_rng(0).standard_normal((12, size)).astype(np.float32)
    again, same = np.r_[np.repeat(0, 9), np.arange(12)], find_head("cosine")
    expected, found = (
        fitted(same, KERNELS, once[chosen], labels[chosen]) for chosen in (np.arange(12), again)
    )
    assert found.counts.tolist() == [6, 6] and found.limit == pytest.approx(expected.limit, rel=1e-5)


def test_a_class_without_a_new_image_keeps_its_latest_old_one():
    recent, embeddings = filled(np.array([2, 2, 0, 1, 0, 1]))
    old = fitted(find_head("cosine"), KERNELS, images([0, 1, 2], 5), np.array([0, 1, 2])).extended(WAY)
    assert np.allclose(refitted(old, KERNELS, recent, 4, WAY).means[2], embeddings[1], atol=1e-6)


def test_a_class_that_was_never_labelled_keeps_its_mean():
    recent, _ = filled(np.array([0, 1, 0, 1]))
    old = fitted(find_head("cosine"), KERNELS, images([0, 1, 2], 5), np.array([0, 1, 2])).extended(WAY)
    assert np.allclose(refitted(old, KERNELS, recent, 4, WAY).means[2], old.means[2], atol=1e-6)


def test_a_head_without_means_is_not_refitted_while_a_class_has_no_image():
    recent, _ = filled(np.array([0, 1, 0, 1]))
    old = fitted(find_head("knn"), KERNELS, images([0, 1, 2], 5), np.array([0, 1, 2])).extended(WAY)
    assert refitted(old, KERNELS, recent, 4, WAY) is None
    recent.add(images([2], 9)[0], 2)
    assert refitted(old, KERNELS, recent, 5, WAY) is not None


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,000 images of scikit-learn's handwritten digits as 64 pixels, of length 1, in a random order."""
    datasets = pytest.importorskip("sklearn.datasets")
    data = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))[:1000]
    pixels = data.data[order].astype(np.float32)
    return pixels / np.linalg.norm(pixels, axis=1, keepdims=True), data.target[order].astype(np.int32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["knn", "cosine"])
def test_labels_of_digits_that_are_permuted_are_found_at_once_and_hybrid_beats_passive(name):
    """The check of the method: the change at 400 is found near 403, no alarm before, hybrid above passive."""
    pixels, truth = digits()
    start, right, places = 200, {}, []
    for way in ("passive", "hybrid"):
        head = fitted(find_head(name), KERNELS, pixels[:start], truth[:start]).extended(10)
        recent, detector, right[way] = Recent(64), Cusum(), []
        for place, (e, label) in enumerate(zip(pixels[start:], truth[start:], strict=True)):
            label = (label + 3) % 10 if place >= 400 else label
            right[way].append(int(head.logits(e[None])[0].argmax()) == label)
            head.update(KERNELS, e[None], np.array([label], np.int32))
            recent.add(e, label)
            if way == "hybrid" and detector.update(not right[way][-1]) == DRIFT:
                places.append(place)
                head = refitted(head, KERNELS, recent, detector.since, 10) or head
    assert 402 <= places[0] <= 408
    passive, hybrid = (np.mean(right[way][400:600]) for way in ("passive", "hybrid"))
    assert hybrid > passive + 0.1
