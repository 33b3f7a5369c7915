"""Heads that are fitted to the images after a change."""

import numpy as np
import pytest
from cases import each
from headdata import unit, unit32

from tinytrain import kernels as kernel_table
from tinytrain.drift.detector import DRIFT, Cusum
from tinytrain.drift.refit import fitted, refitted
from tinytrain.heads.registry import HEADS, find_head

KERNELS = kernel_table.load()
WAY, SIZE = 3, 16
CENTRES = np.random.default_rng(0).standard_normal((WAY, SIZE))


def images(labels, seed: int = 1) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((len(labels), SIZE))
    return unit32(CENTRES[labels] + 0.3 * noise)


def old(name):
    """A head of all classes that is in use."""
    return fitted(find_head(name), KERNELS, images([0, 1, 2], 5), np.array([0, 1, 2])).extended(WAY)


@each("name", HEADS)
def test_a_refitted_head_is_that_of_the_images_since_the_change_and_can_be_updated(name):
    labels = np.array([0, 1, 2, 1, 0, 2, 2, 1, 0, 0])
    embeddings = images(labels)
    found = refitted(old(name), KERNELS, embeddings, labels, 6, WAY)
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
    assert found.counts.tolist() == [6, 6] and found.limit[:2] == pytest.approx(expected.limit[:2], rel=1e-5)


def test_a_class_without_a_new_image_keeps_its_latest_old_one():
    labels = np.array([2, 2, 0, 1, 0, 1])
    embeddings = 3 * images(labels)
    found = refitted(old("cosine"), KERNELS, embeddings, labels, 4, WAY)
    assert np.allclose(found.means[2], embeddings[1] / 3, atol=1e-6)


def test_a_class_that_was_never_labelled_keeps_its_mean_and_without_means_there_is_no_head():
    labels = np.array([0, 1, 0, 1])
    before = old("cosine")
    found = refitted(before, KERNELS, images(labels), labels, 4, WAY)
    assert np.allclose(found.means[2], before.means[2], atol=1e-6)
    assert refitted(old("knn"), KERNELS, images(labels), labels, 4, WAY) is None
    labels = np.append(labels, 2)
    assert refitted(old("knn"), KERNELS, images(labels), labels, 5, WAY) is not None


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,000 images of scikit-learn's handwritten digits as 64 pixels, of length 1, in a random order."""
    datasets = pytest.importorskip("sklearn.datasets")
    data = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))[:1000]
    pixels = data.data[order].astype(np.float32)
    return unit(pixels), data.target[order].astype(np.int32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["knn", "cosine"])
def test_labels_of_digits_that_are_permuted_are_found_at_once_and_hybrid_beats_passive(name):
    """The check of the method: the change at 400 is found near 403, no alarm before, hybrid above passive."""
    pixels, truth = digits()
    start, right, places = 200, {}, []
    for way in ("passive", "hybrid"):
        head = fitted(find_head(name), KERNELS, pixels[:start], truth[:start]).extended(10)
        labels, detector, right[way] = truth[start:].copy(), Cusum(), []
        labels[400:] = (labels[400:] + 3) % 10
        for place, (e, label) in enumerate(zip(pixels[start:], labels, strict=True)):
            right[way].append(int(head.logits(e[None])[0].argmax()) == label)
            head.update(KERNELS, e[None], np.array([label], np.int32))
            if way == "hybrid" and detector.update(not right[way][-1]) == DRIFT:
                places.append(place)
                known = pixels[start:][: place + 1], labels[: place + 1]
                head = refitted(head, KERNELS, *known, detector.since, 10) or head
    assert 402 <= places[0] <= 408
    passive, hybrid = (np.mean(right[way][400:600]) for way in ("passive", "hybrid"))
    assert hybrid > passive + 0.1
