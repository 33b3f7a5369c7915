import io
import os
import resource
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tinytrain.base.errors import InputError
from tinytrain.episode.decode import check_image, fit, load_image


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def scene(width=60, height=40):
    """A smooth image with four different quarters, so that every rotation gives another image."""
    y, x = np.mgrid[0:height, 0:width]
    red, green = x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1)
    return np.stack([red, green, (red + green) // 3], axis=-1).astype(np.uint8)


def png_header(width, height, depth=8, colour_type=2):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def bmp_header(width, height):
    return (
        b"BM"
        + struct.pack("<IHHI", 54, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, *[0] * 6)
    )


def jpeg_header(width, height):
    data = bytearray(encoded(Image.new("RGB", (16, 16)), "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(data)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM"])
@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (33, 47), (200, 300)])
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


@pytest.mark.parametrize("orientation", [1, *STORED])
@pytest.mark.parametrize(
    ("stored", "kept"), [((60, 60), (20, 60)), ((90, 60), (90, 30)), ((20, 90), (20, 60))]
)
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


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
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


@pytest.mark.parametrize(
    "mode, kind", [("1", "PNG"), ("LA", "PNG"), ("CMYK", "JPEG"), ("L", "JPEG"), ("1", "PPM")]
)
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


def test_the_result_may_be_written_to():
    load_image(encoded(Image.fromarray(scene())), 8)[0, 0] = 1


@pytest.mark.parametrize("header, limit", [(png_header, 61), (bmp_header, 61), (jpeg_header, 128)])
@pytest.mark.parametrize("side", [30_000, 12_000, 60_000])
def test_a_header_that_claims_too_many_pixels_is_refused_before_anything_is_allocated(
    tmp_path, header, limit, side
):
    path = tmp_path / "bomb.img"
    path.write_bytes(header(side, side))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for attempt in (lambda: load_image(path, 128), lambda: check_image(path)):
        with pytest.raises(InputError, match=rf"bomb.img.*limit is {limit} million") as caught:
            attempt()
        assert caught.value.code == "picture-too-large"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


@pytest.mark.parametrize("mode, limit", [("LA", 20), ("RGBA", 30), ("I;16", 30), ("RGB", 61), ("L", 61)])
def test_kinds_that_take_more_memory_to_decode_may_have_fewer_pixels(tmp_path, mode, limit):
    colour_type = {"LA": 4, "RGBA": 6, "I;16": 0, "RGB": 2, "L": 0}[mode]
    side = int((limit * 1e6) ** 0.5) + 400
    path = tmp_path / "x.png"
    path.write_bytes(png_header(side, side, 16 if mode == "I;16" else 8, colour_type))
    with pytest.raises(InputError, match=f"limit is {limit} million for its kind") as caught:
        check_image(path)
    assert caught.value.code == "picture-too-large"
    path.write_bytes(png_header(side - 500, side - 500, 16 if mode == "I;16" else 8, colour_type))
    check_image(path)  # does not decode a PNG


BROKEN = {
    "empty": b"",
    "text": b"these are no pixels",
    "png magic only": b"\x89PNG\r\n\x1a\n",
    "half a png": encoded(Image.fromarray(scene()))[:-60],
    "half a jpeg": encoded(Image.fromarray(scene(300, 200)), "JPEG")[:-2500],
    "half a bmp": encoded(Image.fromarray(scene()), "BMP")[:900],
    "half a ppm": encoded(Image.fromarray(scene()), "PPM")[:900],
    "no pixel data": png_header(8, 8),
    "other format": encoded(Image.fromarray(scene()), "PCX"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_image_is_one_clean_error_that_names_it(tmp_path, name):
    path = tmp_path / "broken.jpg"
    path.write_bytes(BROKEN[name])
    for attempt in (lambda: load_image(path, 32), lambda: load_image(BROKEN[name], 32, "broken.jpg")):
        with pytest.raises(InputError, match=r"broken\.jpg") as caught:
            attempt()
        assert caught.value.code == "picture-broken"
        assert "\n" not in str(caught.value) and " at 0x" not in str(caught.value)


@pytest.mark.parametrize("name", [n for n in BROKEN if n != "no pixel data"])
def test_the_cheap_check_finds_broken_files(tmp_path, name):
    path = tmp_path / "broken.jpg"
    path.write_bytes(BROKEN[name])
    with pytest.raises(InputError) as caught:
        check_image(path)
    assert caught.value.code == "picture-broken"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "PPM"])
def test_the_cheap_check_passes_whole_images(tmp_path, kind):
    path = tmp_path / "whole"
    path.write_bytes(encoded(Image.fromarray(scene()), kind))
    check_image(path)


def test_a_jpeg_with_a_trailer_is_whole(tmp_path):
    path = tmp_path / "motion.jpg"
    path.write_bytes(encoded(Image.fromarray(scene()), "JPEG") + b"a film follows here" * 20)
    check_image(path)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "PPM"])
def test_flipped_bits_never_cause_another_exception(kind):
    rng = np.random.default_rng(0)
    data = encoded(Image.fromarray(scene(40, 30)), kind)
    for _ in range(150):
        hurt = bytearray(data)
        for at in rng.integers(0, len(hurt), rng.integers(1, 6)):
            hurt[at] ^= 1 << int(rng.integers(8))
        try:
            assert load_image(bytes(hurt), 16).shape == (16, 16, 3)
        except InputError as error:
            assert error.code in ("picture-broken", "picture-too-large")


@pytest.mark.parametrize(
    "make", [lambda p: None, lambda p: p.mkdir(), lambda p: os.mkfifo(p), lambda p: p.symlink_to(p)]
)
def test_a_path_that_is_not_a_file_is_missing_and_never_blocks(tmp_path, make):
    path = tmp_path / "there.jpg"
    make(path)
    with pytest.raises(InputError, match=r"there\.jpg") as caught:
        load_image(path, 32)
    assert caught.value.code == "picture-missing"


def test_a_name_that_becomes_a_pipe_after_a_look_at_it_is_still_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "there.jpg")
    held = os.open(tmp_path / "there.jpg", os.O_RDWR)  # otherwise opening would wait for ever
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    try:
        for read in (check_image, lambda path: load_image(path, 32)):
            with pytest.raises(InputError, match=r"there\.jpg' is not a file") as caught:
                read(tmp_path / "there.jpg")
            assert caught.value.code == "picture-missing"
    finally:
        os.close(held)


WITHOUT_A_PIXEL = {
    "0 x 0": b"P2 0 0 255\n",
    "0 x 5": b"P6 0 5 200\n",
    "5 x 0": b"P5 5 0 255\n",
    "0 x 8": png_header(0, 8),
    "8 x 0": bmp_header(8, 0),
    "16 x 0": jpeg_header(16, 0),
}


@pytest.mark.parametrize("shape", WITHOUT_A_PIXEL)
def test_an_image_without_a_pixel_is_refused_by_its_shape(tmp_path, shape):
    path = tmp_path / "x.img"
    path.write_bytes(WITHOUT_A_PIXEL[shape])
    for read in (check_image, lambda path: load_image(path, 32)):
        with pytest.raises(InputError, match=f"is {shape} pixels; replace") as caught:
            read(path)
        assert caught.value.code == "picture-broken"


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
        assert caught.value.code == "picture-broken"


@pytest.mark.parametrize("largest", [1, 100, 255, 256, 4095, 65535])
@pytest.mark.parametrize("kind", [2, 3, 5, 6])
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


@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize("packed", [False, True])
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


def test_a_png_with_a_wrong_checksum_of_a_needed_chunk_fails_the_check(tmp_path):
    path = tmp_path / "x.png"
    data = encoded(Image.fromarray(scene()), exif=Image.Exif())
    for at in (28, data.index(b"IDAT") + 4, data.index(b"IDAT") + 40, len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(InputError, match="is damaged"):
            check_image(path)


def test_a_png_with_a_wrong_checksum_of_a_text_passes_the_check_as_it_is_read(tmp_path):
    info = PngInfo()
    info.add_text("Author", "me")
    whole = encoded(Image.fromarray(scene()), pnginfo=info)
    (tmp_path / "x.png").write_bytes(whole.replace(b"Author\0me", b"Author\0ma"))
    check_image(tmp_path / "x.png")
    assert np.array_equal(load_image(tmp_path / "x.png", 32), load_image(whole, 32))
