"""The distribution of augmentations, and the geometry of rotated and scaled images."""

import math

import numpy as np
import pytest
from cases import each

from tinytrain import kernels
from tinytrain.base.random_streams import rng_for
from tinytrain.episode.augment import FILL, USUAL, Augmentation, Ranges, draw

SIZE = 33
BACKENDS = each("backend", ["auto", "numpy"])
RIGHT_ANGLE = Augmentation(cosine=0.0, sine=1.0)


def drawn(ranges: Ranges, count: int = 2000) -> list[Augmentation]:
    """The augmentations that change something."""
    found = [draw(rng_for(0, "draws", i), SIZE, True, ranges) for i in range(count)]
    return [a for a in found if a != Augmentation()]


def gradient_image():
    """A smooth image without repeated parts."""
    y, x = np.mgrid[:SIZE, :SIZE]
    return np.stack([3 * y + 40, 4 * x + 30, 2 * x + 3 * y + 20], axis=-1).astype(np.uint8)


def shown(augmentation: Augmentation, backend: str = "auto", image=None) -> np.ndarray:
    image = gradient_image() if image is None else image
    out = np.empty_like(image)
    kernels.load(backend).augment(out, image, *augmentation.arguments())
    return out


@pytest.mark.parametrize("colours", [0.5, 1.0, 1.5])
def test_colours_and_places_are_drawn_from_all_of_their_ranges(colours):
    found = drawn(Ranges(colours))
    assert 0.88 < len(found) / 2000 < 0.92
    limits = {
        "brightness": (-29 * colours, 29 * colours),
        "saturation": (1 - colours, 1 + colours),
        "contrast": (1 - colours / 2, 1 + colours / 2),
        "down": (-4, 4),
        "right": (-4, 4),
        "flip": (False, True),
    }
    for name, (low, high) in limits.items():
        values, near = [getattr(a, name) for a in found], (high - low) / 50
        assert low <= min(values) <= low + near and high - near <= max(values) <= high


def test_turns_and_enlargements_are_drawn_from_all_of_their_ranges():
    found = drawn(Ranges(turn=math.tan(math.radians(5)), zoom=1.25))
    angles = [math.degrees(math.atan2(a.sine, a.cosine)) for a in found]
    sizes = [1 / math.hypot(a.sine, a.cosine) for a in found]
    assert -10 <= min(angles) < -9.8 and 9.8 < max(angles) <= 10
    assert 0.8 <= min(sizes) < 0.81 and 1.24 < max(sizes) <= 1.25


def test_an_enlargement_needs_no_turn():
    found = drawn(Ranges(zoom=1.25))
    assert all(a.sine == 0 for a in found) and len({a.cosine for a in found}) == len(found)


@each("wrong", [Ranges(-1.0), Ranges(turn=-0.1), Ranges(zoom=0.8), Ranges(zoom=np.nan), Ranges(turn=np.inf)])
def test_ranges_that_nothing_can_be_drawn_from_are_known(wrong):
    assert not wrong.possible and USUAL.possible and Ranges(0, 0.2, 1.3).possible


def test_the_usual_ranges_turn_nothing_and_further_ones_draw_the_same_flips_and_places():
    usual, far = drawn(USUAL), drawn(Ranges(2.0, 0.2, 1.3))
    assert all((a.cosine, a.sine) == (1, 0) for a in usual)
    assert [(a.flip, a.down, a.right) for a in usual] == [(a.flip, a.down, a.right) for a in far]


@BACKENDS
@each("turn", [(1.0, 0.0), (0.9, 0.3)])
def test_an_image_of_one_channel_becomes_what_the_same_image_in_grey_rgb_becomes(backend, turn):
    grey = np.ascontiguousarray(gradient_image()[:-4, :, :1])
    looks = {"brightness": 11.0, "saturation": 0.6, "contrast": 1.2, "cosine": turn[0], "sine": turn[1]}
    for flip in (False, True):
        augmentation = Augmentation(flip, 3, -5, **looks)
        one, three = shown(augmentation, backend, grey), shown(augmentation, backend, np.repeat(grey, 3, 2))
        assert one.shape == grey.shape and len(np.unique(one)) > 20
        np.testing.assert_allclose(three, np.repeat(one.astype(int), 3, 2), atol=1)


def test_an_image_that_is_not_square_moves_by_an_eighth_of_each_side():
    found = [draw(rng_for(0, "draws", i), (16, 64), True) for i in range(500)]
    assert (max(a.down for a in found), max(a.right for a in found)) == (2, 8)


@BACKENDS
def test_a_turn_by_a_right_angle_is_that_of_the_array(backend):
    inside = slice(1, SIZE - 1)  # the outermost pixels have no neighbour to interpolate with
    np.testing.assert_array_equal(
        shown(RIGHT_ANGLE, backend)[inside, inside], np.rot90(gradient_image(), -1)[inside, inside]
    )


@BACKENDS
def test_an_image_enlarged_twice_shows_the_centre_at_half_steps(backend):
    found, middle = shown(Augmentation(cosine=0.5), backend).astype(int), SIZE // 2
    np.testing.assert_array_equal(found[middle, middle], gradient_image()[middle, middle])
    for steps in (-8, -3, 5, 8):
        wanted = gradient_image()[middle, middle] + np.array([0, 4, 2]) * steps / 2
        assert np.abs(found[middle, middle + steps] - wanted).max() <= 1


@BACKENDS
def test_the_uncovered_part_of_a_rotated_image_is_filled(backend):
    small = shown(Augmentation(cosine=2.0), backend)
    assert (small[:7] == FILL).all() and (small[:, -7:] == FILL).all()
    assert (small[10:23, 10:23] != FILL).any(axis=-1).all()


@BACKENDS
@each("flip", [False, True])
def test_flips_and_places_come_after_the_turn(flip, backend):
    turned = shown(RIGHT_ANGLE, backend)
    moved = shown(Augmentation(flip, 3, -2, cosine=0.0, sine=1.0), backend)
    wanted = (turned[:, ::-1] if flip else turned)[1:-4, 3:-1]
    np.testing.assert_array_equal(moved[4:-1, 1:-3], wanted)


def test_colours_of_a_turned_image_change_as_of_one_that_is_not():
    """Contrast is about the mean of the whole image, even if the rotation uncovers a part."""
    colours = {"brightness": 20.0, "saturation": 0.5, "contrast": 0.75}
    plain, turned = shown(Augmentation(**colours)), shown(Augmentation(**colours, cosine=0.0, sine=1.0))
    inside = slice(1, SIZE - 1)
    assert np.abs(np.rot90(plain, -1).astype(int) - turned)[inside, inside].max() <= 1
