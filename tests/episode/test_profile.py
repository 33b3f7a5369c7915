"""Colours of an ICC profile become those of sRGB; profiles that cannot be used change nothing."""

import io

import numpy as np
import pytest
from cases import each
from imagefiles import encoded
from PIL import Image, features
from profiles import (
    ADOBE,
    ADOBE_CURVE,
    P3,
    SRGB,
    SRGB_CURVE,
    as_srgb,
    curve,
    of_display,
    profile,
    program,
    table,
)

from tinytrain.episode.decode import convert, load_image
from tinytrain.episode.profile import in_srgb

SPACES = {"Display P3": (P3, SRGB_CURVE), "Adobe RGB": (ADOBE, ADOBE_CURVE)}
OPTIONS = {
    "PNG": {},
    "TIFF": {},
    "WEBP": {"lossless": True},
    "JPEG": {"quality": 100, "subsampling": 0},
    "AVIF": {"quality": 100, "subsampling": "4:4:4"},
    "HEIF": {"quality": 100, "chroma": 444},
}
SIDE = 64


def colours():
    """(64, 64, 3): every combination of 16 levels of each colour, which the eye can see."""
    levels = np.arange(0, 256, 17, dtype=np.uint8)
    return np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(SIDE, SIDE, 3)


@pytest.mark.parametrize("space", SPACES)
def test_colours_are_those_of_the_formula(space):
    data = encoded(Image.fromarray(colours()), icc_profile=of_display(*SPACES[space]))
    exact = as_srgb(colours(), *SPACES[space])
    assert np.abs(load_image(data, SIDE) - exact).max() <= 1.5
    assert np.abs(colours() - exact).max() > 40, "so much is wrong without"


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_kind_of_file_has_its_profile_read(kind):
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("Pillow without AVIF")
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    image = Image.new("RGB", (SIDE, SIDE), (200, 90, 60))
    data = encoded(image, kind, icc_profile=of_display(*SPACES["Display P3"]), **OPTIONS[kind])
    exact = as_srgb(np.array((200, 90, 60)), *SPACES["Display P3"])
    assert np.abs(load_image(data, 16) - exact).max() <= 4
    assert np.abs(load_image(encoded(image, kind, **OPTIONS[kind]), 16) - (200.0, 90, 60)).max() <= 4


def test_a_long_profile_lies_in_several_parts_of_a_jpeg():
    image = Image.fromarray(colours())
    long = profile({b"A2B0": table(24)})
    assert len(long) > 65536
    got = load_image(encoded(image, "JPEG", icc_profile=long), SIDE)
    assert np.ptp(got.reshape(-1, 3), axis=0).max() == 0, "all colours of this table are the same"


def test_a_profile_of_grey_and_one_of_inks_are_followed():
    grey = Image.fromarray(colours()[..., 0])
    data = encoded(grey, icc_profile=profile({b"kTRC": curve((1.0,))}, b"GRAY"))
    exact = as_srgb(colours()[..., :1].repeat(3, axis=-1), SRGB, (1.0,))
    assert np.abs(load_image(data, SIDE) - exact).max() <= 1.5
    inks = profile({b"A2B0": table(9, 4)}, b"CMYK", b"prtr")
    image = Image.fromarray(colours()).convert("CMYK")
    got = load_image(encoded(image, "TIFF", icc_profile=inks), SIDE)
    assert np.ptp(got.reshape(-1, 3), axis=0).max() <= 3


def test_transparency_stays_what_it_is():
    image = Image.fromarray(colours()).convert("RGBA")
    image.putalpha(Image.fromarray(colours()[..., 0]))
    p3 = of_display(*SPACES["Display P3"])
    alpha = colours()[..., :1] / 255
    exact = as_srgb(colours(), *SPACES["Display P3"]) * alpha + 255 * (1 - alpha)
    assert np.abs(load_image(encoded(image, icc_profile=p3), SIDE) - exact).max() <= 2


def test_a_pil_image_is_read_as_its_file_is():
    data = encoded(Image.fromarray(colours()), icc_profile=of_display(*SPACES["Display P3"]))
    with Image.open(io.BytesIO(data)) as image:
        assert np.array_equal(convert(image, SIDE, "x"), load_image(data, SIDE))


def test_srgb_changes_no_bit():
    data = encoded(
        Image.fromarray(colours()), icc_profile=of_display(SRGB, SRGB_CURVE, name="sRGB IEC61966-2.1")
    )
    assert np.array_equal(load_image(data, SIDE), colours())


GOOD = of_display(*SPACES["Display P3"])
UNUSABLE = {
    "none": b"",
    "cut off": GOOD[:-40],
    "another space": profile({b"kTRC": curve((1.0,))}, b"GRAY"),
    "no colours": profile({}),
    "not one": bytes(len(GOOD)),
    "a link": GOOD[:12] + b"link" + GOOD[16:],
    "a program": of_display(P3, SRGB_CURVE, {b"D2B0": program()}),
    "many tags": GOOD[:128] + b"\xff" * 4 + GOOD[132:],
    "too long": profile({b"A2B0": table(57)}),
}


@each("name", UNUSABLE)
@each("kind", ["PNG", "JPEG"])
def test_a_profile_that_cannot_be_used_changes_nothing(name, kind):
    image = Image.fromarray(colours())
    plain = load_image(encoded(image, kind, quality=90), SIDE)
    assert np.array_equal(
        load_image(encoded(image, kind, quality=90, icc_profile=UNUSABLE[name]), SIDE), plain
    )


def test_damaged_profiles_never_raise():
    draw = np.random.default_rng(0)
    image = Image.fromarray(colours()[:8, :8])
    for whole in (GOOD, profile({b"A2B0": table(3)}), profile({b"kTRC": curve((2.0,))}, b"GRAY")):
        for _ in range(200):
            data = bytearray(whole)
            for at in draw.integers(40, len(data), draw.integers(1, 6)):
                data[at] = draw.integers(256)
            assert in_srgb(image, bytes(data)).mode == "RGB"
