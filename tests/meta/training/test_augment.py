"""Views of images, held-out classes and batches."""

import numpy as np
import pytest
import toynets
import toyruns
from cases import each

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import folder_dataset
from tinytrain.meta.training.augment import TRANSFORMS, Looks, change, crop_box, view
from tinytrain.meta.training.recipe import SourceSettings
from tinytrain.meta.training.sources import Source, Store, subset

PLAIN = Looks(crop=(1.0, 1.0), jitter=0.0, flip=False, domain=0.0)


@pytest.fixture
def source(tmp_path):
    made = Source(SourceSettings(toyruns.folder(tmp_path / "d"), size=20, held_out=0.34), seed=0)
    return made


def test_a_crop_has_the_share_of_the_area_that_was_asked_for():
    for k in range(200):
        x, y, right, lower = crop_box(rng_for(k), 30, 20, (0.2, 0.6))
        assert 0 <= x < right <= 30 + 1e-9 and 0 <= y < lower <= 20 + 1e-9
        assert 0.2 * 600 - 1e-6 <= (right - x) * (lower - y) <= 0.6 * 600 + 1e-6


def test_without_variation_a_image_stays_as_it_is():
    (image,) = toynets.images(1)
    box = crop_box(rng_for(0), 16, 16, (1.0, 1.0))
    assert box == (0, 0, 16, 16)
    np.testing.assert_array_equal(view(image, rng_for(0), 16, PLAIN, may_flip=True), image)


def test_a_grey_image_becomes_three_equal_planes():
    grey = toynets.images(1)[0, ..., 0]
    np.testing.assert_array_equal(
        view(np.ascontiguousarray(grey), rng_for(0), 16, PLAIN, False)[..., 1], grey
    )


def test_only_domains_that_allow_it_are_mirrored():
    (image,) = toynets.images(1)
    looks = Looks(crop=(1.0, 1.0), jitter=0.0, domain=0.0)
    found = [
        {view(image, rng_for(k), 16, looks, may_flip).tobytes() for k in range(20)}
        for may_flip in (False, True)
    ]
    assert [len(f) for f in found] == [1, 2]
    assert np.ascontiguousarray(image[:, ::-1]).tobytes() in found[1]


@each("name", TRANSFORMS)
def test_changes_of_domain_keep_shape_and_type_and_change_something(name):
    images = toynets.images(3)
    changed = change(rng_for(1), Looks(domain=1.0, transforms=(name,)))(images)
    assert (changed.shape, changed.dtype) == (images.shape, np.uint8)
    assert (changed != images).any()
    alone = change(rng_for(1), Looks(domain=1.0, transforms=(name,)))(images[1:2])
    np.testing.assert_array_equal(changed[1:2], alone)


def test_the_probability_of_a_change_of_domain():
    changed = [change(rng_for(k), Looks(domain=0.6)) is not None for k in range(400)]
    assert 0.5 < np.mean(changed) < 0.7


def test_held_out_classes_are_never_trained_on(source):
    assert not set(source.train.class_names) & set(source.held_out.class_names)
    assert len(source.train.class_names) == len(source.held_out.class_names) * 2 == 4


def test_a_image_is_read_once_and_grey_ones_take_a_third(tmp_path):
    dataset = folder_dataset(toyruns.folder(tmp_path / "d"))
    reads = []
    spied = subset(dataset, range(2))
    read = spied.read
    object.__setattr__(
        spied, "read", lambda i, size: reads.append(i) or np.repeat(read(i, size)[..., :1], 3, -1)
    )
    store = Store(spied, 10)
    assert store.read(3).shape == (10, 10)
    assert store.read(3) is store.read(3)
    assert reads == [3]


def test_a_subset_keeps_images_with_their_classes(tmp_path):
    dataset = folder_dataset(toyruns.folder(tmp_path / "d"))
    few = subset(dataset, [4, 1])
    assert few.class_names == (dataset.class_names[4], dataset.class_names[1])
    for c, original in enumerate((4, 1)):
        for i, j in zip(few.by_class[c], dataset.by_class[original], strict=True):
            assert few.names[i] == dataset.names[j]
            np.testing.assert_array_equal(few.read(int(i), 8), dataset.read(int(j), 8))


def test_batches_depend_on_their_number_alone(tmp_path):
    task, _ = toyruns.task(tmp_path)
    again, _ = toyruns.task(tmp_path)
    task.batch(0)
    first, second = task.batch(3), again.batch(3)
    np.testing.assert_array_equal(first.images, second.images)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert (task.batch(4).images != first.images).any()
