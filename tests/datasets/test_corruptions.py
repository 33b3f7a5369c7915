"""Corruptions of images: what each of them does, and that none writes to what it is given."""

import numpy as np
from cases import each

from tinytrain.datasets.corruptions import CORRUPTIONS, blurred, darkened, noisy, rotated

IMAGE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)


def rng():
    return np.random.default_rng(1)


@each("name", CORRUPTIONS)
def test_a_corruption_is_another_image_of_the_same_shape_and_the_same_every_time(name):
    before, change = IMAGE.copy(), CORRUPTIONS[name]
    found = change(IMAGE, rng())
    assert found.shape == IMAGE.shape and found.dtype == np.uint8 and (found != IMAGE).any()
    assert np.array_equal(found, change(IMAGE, rng())) and np.array_equal(IMAGE, before)


def test_a_darkened_image_has_a_fraction_of_every_value():
    assert np.abs(darkened(IMAGE, rng(), 0.25) - IMAGE / 4).max() <= 0.5


def test_a_blurred_image_keeps_its_mean_and_loses_its_details():
    found = blurred(IMAGE, rng())
    assert abs(found.mean() - IMAGE.mean()) < 1 and found.std() < 0.5 * IMAGE.std()


def test_a_half_turn_is_the_image_upside_down():
    assert np.array_equal(rotated(IMAGE, rng(), 180), IMAGE[::-1, ::-1])


def test_noise_has_the_deviation_asked_for_and_stays_in_range():
    grey = np.full((64, 64, 3), 128, np.uint8)
    found = noisy(grey, rng(), 20).astype(float)
    assert abs(found.std() - 20) < 1 and abs(found.mean() - 128) < 1
    assert noisy(np.full((64, 64, 3), 255, np.uint8), rng(), 200).max() == 255
