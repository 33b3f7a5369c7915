"""Every image comes out as the network sees it: upright, cut to the square, RGB on white."""

import io
import warnings

import numpy as np
import pytest
from cases import each
from imagefiles import encoded, jpeg_header, scene
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tinytrain.base.errors import InputError
from tinytrain.episode.decode import fit, load_image


@each("kind", ["PNG", "BMP", "PPM"])
@each("shape", [(40, 60), (60, 40), (33, 47), (200, 300)])
def test_the_rule_is_shorter_side_bilinear_then_centre_crop(kind, shape):
    pixels = scene(shape[1], shape[0])
    size = 32
    scale = size / min(shape)
    long = round(max(shape) * scale)
    resized = (long, size) if shape[1] > shape[0] else (size, long)
    whole = np.asarray(Image.fromarray(pixels).resize(resized, Image.Resampling.BILINEAR), dtype=int)
    top, left = (whole.shape[0] - size) // 2, (whole.shape[1] - size) // 2
    expected = whole[top : top + size, left : left + size]
    got = load_image(encoded(Image.fromarray(pixels), kind), size)
    assert got.shape == (size, size, 3) and got.dtype == np.uint8
    assert np.abs(got - expected).max() <= 6  # half a pixel of rounding in a gradient
    assert np.array_equal(got, fit(pixels, size))


def test_a_jpeg_in_draft_mode_looks_like_the_whole_jpeg_shrunk():
    big = Image.fromarray(scene(1600, 1200))
    data = encoded(big, "JPEG", quality=95)
    whole = fit(np.asarray(Image.open(io.BytesIO(data))), 128).astype(int)
    assert np.abs(load_image(data, 128) - whole).mean() < 1.5


# How a camera stores an upright image under each EXIF orientation.
STORED = {
    1: lambda up: up,
    2: np.fliplr,
    3: lambda up: np.rot90(up, 2),
    4: np.flipud,
    5: lambda up: up.swapaxes(0, 1),
    6: lambda up: np.rot90(up, 1),
    7: lambda up: np.rot90(up, 2).swapaxes(0, 1),
    8: lambda up: np.rot90(up, -1),
}


@each("orientation", [1, *STORED])
@each(("stored", "kept"), [((60, 60), (20, 60)), ((90, 60), (90, 30)), ((20, 90), (20, 60))])
def test_what_is_not_square_covers_the_centre_and_is_turned_last(orientation, stored, kept):
    """`kept` are the numbers of rows and columns in the middle that remain."""
    upright = scene(*stored[::-1])
    size = (20, 60) if kept[1] > kept[0] else (60, 20)
    top, left = ((whole - part) // 2 for whole, part in zip(stored, kept, strict=True))
    centre = Image.fromarray(upright[top : top + kept[0], left : left + kept[1]])
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = np.ascontiguousarray(STORED.get(orientation, lambda up: up)(upright))
    got = load_image(encoded(Image.fromarray(turned), "PNG", exif=exif), size)
    assert got.shape == (*size, 3)
    want = np.asarray(centre.resize(size[::-1], Image.Resampling.BILINEAR), int)
    assert np.abs(got - want)[2:-2, 2:-2].max() <= 3
    if orientation == 1:
        assert np.array_equal(got, fit(upright, size))


@each("orientation", STORED)
@each("kind", ["JPEG", "PNG"])
def test_exif_rotation_is_undone(orientation, kind):
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](scene(64, 64))))
    exif = Image.Exif()
    exif[0x0112] = orientation
    got = load_image(encoded(stored, kind, exif=exif), 64)
    assert np.abs(got.astype(int) - scene(64, 64)).mean() < 3


def test_a_phone_portrait_comes_out_upright_and_centred():
    tall = np.zeros((90, 60, 3), np.uint8)
    tall[:30, :, 0] = 255  # red above, outside the centre
    tall[30:60, :30, 1] = 255  # green on the left of the centre
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying, must be rotated clockwise
    lying = Image.fromarray(tall).transpose(Image.Transpose.ROTATE_90)
    got = load_image(encoded(lying, "PNG", exif=exif), 60)
    assert got[30, 10].tolist() == [0, 255, 0]
    assert got[30, 50].tolist() == [0, 0, 0]
    assert got[5, 30, 0] == 255


def test_broken_exif_costs_the_rotation_and_not_the_image():
    data = encoded(Image.fromarray(scene()), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert load_image(data, 16).shape == (16, 16, 3)


def test_grey_becomes_three_equal_channels():
    got = load_image(encoded(Image.fromarray(scene()[..., 0])), 40)
    assert np.array_equal(got[..., 0], got[..., 2]) and got.std() > 10


def test_16_bit_grey_is_scaled_and_not_clipped(tmp_path):
    deep = np.array([[0, 257, 32896, 65535]] * 4, dtype=np.uint16)
    expected = [0, 1, 128, 255]
    assert load_image(encoded(Image.fromarray(deep)), 4)[0, :, 1].tolist() == expected
    plain = b"P5 4 4 65535\n" + deep.astype(">u2").tobytes()
    assert load_image(plain, 4)[2, :, 0].tolist() == expected


def test_16_bit_colour_is_scaled_and_not_clipped():
    deep = np.array([[[0, 32896, 65535]] * 2] * 2, dtype=">u2")
    assert load_image(b"P6 2 2 65535\n" + deep.tobytes(), 2)[0, 0].tolist() == [0, 128, 255]


def test_transparent_parts_become_white_and_half_transparent_ones_half_white():
    rgba = np.zeros((8, 8, 4), np.uint8)
    rgba[:, :4] = (200, 0, 0, 255)
    rgba[:4, 4:] = (0, 90, 0, 0)
    rgba[4:, 4:] = (0, 0, 0, 128)
    got = load_image(encoded(Image.fromarray(rgba)), 8)
    assert got[6, 0].tolist() == [200, 0, 0]
    assert got[0, 7].tolist() == [255, 255, 255]
    assert abs(int(got[7, 7, 0]) - 127) <= 1


def test_the_colour_below_transparency_does_not_bleed_when_shrinking():
    rgba = np.zeros((64, 64, 4), np.uint8)
    rgba[..., 1] = 255  # invisible green everywhere
    rgba[:, :32] = (0, 0, 0, 255)
    got = load_image(encoded(Image.fromarray(rgba)), 15).astype(int)
    assert (got[..., 1] - got[..., 0]).max() <= 2


def test_palette_images_keep_colours_and_transparency():
    palette = Image.new("P", (10, 10), 1)
    palette.putpalette([9, 9, 9, 10, 200, 30])
    assert load_image(encoded(palette), 6)[3, 3].tolist() == [10, 200, 30]
    assert load_image(encoded(palette, transparency=1), 6)[3, 3].tolist() == [255, 255, 255]


@each("mode, kind", [("1", "PNG"), ("LA", "PNG"), ("CMYK", "JPEG"), ("L", "JPEG"), ("1", "PPM")])
def test_every_other_mode_comes_out_as_rgb(mode, kind):
    white = load_image(encoded(Image.new("RGB", (20, 30), "white").convert(mode), kind), 12)
    assert white.shape == (12, 12, 3) and white.min() > 250


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1)])
def test_images_of_one_pixel_width_work(shape):
    pixels = np.full((*shape, 3), 77, np.uint8)
    assert (load_image(encoded(Image.fromarray(pixels)), 32) == 77).all()
    assert (fit(pixels[..., :1], 32) == 77).all()


def test_fit_takes_raw_grey_with_and_without_a_channel():
    grey = scene()[..., 0]
    assert np.array_equal(fit(grey, 20), fit(grey[..., None], 20))


def test_an_image_of_the_size_that_is_asked_for_is_copied_as_it_is():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    found = fit(pixels, (20, 30))
    assert np.array_equal(found, pixels) and not np.shares_memory(found, pixels)


def test_the_result_may_be_written_to():
    load_image(encoded(Image.fromarray(scene())), 8)[0, 0] = 1


def test_decoding_leaves_the_warning_filters_alone():
    before = list(warnings.filters)
    load_image(encoded(Image.fromarray(scene())), 8)
    assert list(warnings.filters) == before


def test_a_box_is_cut_out_before_the_rule_of_the_square(tmp_path):
    image = Image.new("RGB", (60, 40), "white")
    image.paste((200, 0, 0), (10, 5, 30, 25))
    image.save(tmp_path / "x.png")
    assert (load_image(tmp_path / "x.png", 8, box=(10, 5, 30, 25)) == [200, 0, 0]).all()
    whole = load_image(tmp_path / "x.png", 8, box=(-5, -5, 999, 999))
    assert np.array_equal(whole, load_image(tmp_path / "x.png", 8))
    for box in ((60, 0, 70, 10), (5, 5, 5, 9), (0, -9, 9, 0)):
        with pytest.raises(InputError, match=r"x\.png.*no pixel inside the box") as caught:
            load_image(tmp_path / "x.png", 8, box=box)
        assert caught.value.code == "image-unreadable"


@each("largest", [1, 100, 255, 256, 4095, 65535])
@each("kind", [2, 3, 5, 6])
def test_a_pnm_of_any_range_of_numbers_is_read_as_pillow_reads_it(kind, largest):
    numbers = np.random.default_rng(largest).integers(0, largest + 1, (24, 24 * (3 if kind in (3, 6) else 1)))
    plain = b"# made by hand\n" + b" ".join(b"%d" % x for x in numbers.ravel()) + b"\n"
    raw = numbers.astype(">u2" if largest > 255 else "u1").tobytes()
    data = b"P%d # comment\n24 24\n%d\n" % (kind, largest) + (raw if kind > 3 else plain)
    theirs = np.asarray(Image.open(io.BytesIO(data)))
    if kind in (2, 5) and largest > 255:  # 16-bit grey there
        theirs = ((theirs + 128) // 257).astype(np.uint8)
    assert np.array_equal(load_image(data, 24), np.asarray(Image.fromarray(theirs).convert("RGB")))


def test_a_plain_bitmap_needs_no_space_between_its_digits():
    for digits in (b"0110", b"0 1\n1 0", b"01#1\n10"):
        assert load_image(b"P1 2 2\n" + digits, 2)[..., 0].tolist() == [[255, 0], [0, 255]]


TURNED = {
    "XMP attribute": (b"XML:com.adobe.xmp", b'<x tiff:Orientation="6"/>'),
    "XMP element": (b"XML:com.adobe.xmp", b"<tiff:Orientation>6</tiff:Orientation>"),
    "EXIF as text": (
        b"Raw profile type exif",
        b"\nexif\n 26\n" + b"49492a00080000000100120103000100000006000000",
    ),
}


@each("name", TURNED)
@each("packed", [False, True])
def test_other_ways_to_say_that_a_png_is_turned_are_understood(name, packed):
    key, value = TURNED[name]
    info = PngInfo()
    add = info.add_itxt if b"XML" in key else info.add_text
    add(key.decode(), value.decode(), zip=packed)
    stored = Image.fromarray(np.ascontiguousarray(STORED[6](scene(64, 64))))
    assert np.array_equal(load_image(encoded(stored, pnginfo=info), 64), scene(64, 64))


def test_a_photo_of_108_megapixels_is_read(tmp_path):
    path = tmp_path / "phone.jpg"
    path.write_bytes(jpeg_header(12_000, 9_000))
    assert load_image(path, 128).shape == (128, 128, 3)


def test_data_after_the_pixels_of_a_png_does_not_matter(tmp_path):
    data = encoded(Image.fromarray(scene()))
    end = data.index(b"IEND") - 4
    assert np.array_equal(load_image(data[:end] + b"no chunk at all", 32), load_image(data, 32))
