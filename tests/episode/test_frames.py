"""GIF, WebP, TIFF and AVIF. The oracle is Pillow's own reading of the whole file."""

import io
import struct
import sys

import imagefiles
import numpy as np
import PIL
import pytest
from cases import each
from hostileframes import riff, tiff
from imagefiles import encoded
from PIL import Image, ImageOps, features

from tinytrain.base.errors import InputError
from tinytrain.episode.decode import check_image, fit, load_image
from tinytrain.episode.pixels import opened

SIZE = 32
needs_avif = pytest.mark.skipif(
    "avif" not in features.modules or not features.check("avif"), reason="this Pillow cannot write AVIF"
)
KINDS = ["GIF", "WEBP", "TIFF", pytest.param("AVIF", marks=needs_avif)]


def scene(width=60, height=40) -> Image.Image:
    return Image.fromarray(imagefiles.scene(width, height))


def noise(width=60, height=40) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def glass() -> Image.Image:
    """The scene, opaque at the bottom and transparent at the top."""
    image = scene().convert("RGBA")
    image.putalpha(Image.fromarray(np.repeat(np.arange(40, dtype=np.uint8)[:, None] * 6, 60, axis=1)))
    return image


def by_pillow(data: bytes) -> np.ndarray:
    """The first frame as Pillow reads it, on white, fitted."""
    image = Image.open(io.BytesIO(data))
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image).astype(int) // 257).astype(np.uint8))
    if "transparency" in image.info or image.mode in ("RGBA", "LA"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return fit(np.asarray(image.convert("RGB")), SIZE)


def same(data: bytes, most: int = 2) -> bool:
    got = load_image(data, SIZE)
    assert got.shape == (SIZE, SIZE, 3) and got.dtype == np.uint8
    return np.abs(got.astype(int) - by_pillow(data)).max() <= most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [scene, noise])
def test_an_image_is_read_as_pillow_reads_it(kind, make):
    data = encoded(make(), kind)
    assert same(data)
    assert load_image(data, SIZE).std() > 5, "and it is not blank"


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_frame_of_several_is_read(kind):
    frames = {"save_all": True, "append_images": [noise(), Image.new("RGB", (60, 40), "white")]}
    data = encoded(scene(), kind, **frames)
    assert Image.open(io.BytesIO(data)).n_frames == 3
    assert same(data)
    assert np.abs(load_image(data, SIZE).astype(int) - fit(np.asarray(scene()), SIZE)).mean() < 12


@pytest.mark.parametrize("kind", ["WEBP", "TIFF", pytest.param("AVIF", marks=needs_avif)])
def test_what_is_transparent_is_white(kind):
    data = encoded(glass(), kind, **({"lossless": True} if kind == "WEBP" else {}))
    # Colours are weighted by alpha when they are averaged, which the oracle does the other way round.
    assert np.abs(load_image(data, SIZE).astype(int) - by_pillow(data)).mean() < 2
    assert load_image(data, SIZE)[0].min() > 240


def test_a_transparent_gif_is_white_where_it_is():
    image = Image.new("P", (40, 40), 0)
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.paste(1, (0, 0, 40, 20))
    got = load_image(encoded(image, "GIF", transparency=0), SIZE)
    assert got[2, 2].tolist() == [0, 0, 255] and got[-2, 2].tolist() == [255, 255, 255]


@each("options", [{}, {"lossless": True}, {"quality": 5}, {"lossless": True, "method": 0}])
@each("colours", [2, 4, 16, 200])
def test_webp_of_few_colours_and_of_many(options, colours):
    image = scene(200, 150).quantize(colours).convert("RGB")
    assert same(encoded(image, "WEBP", **options))


def test_a_webp_whose_first_frame_is_smaller_than_its_canvas():
    still = encoded(scene(20, 20), "WEBP", lossless=True)[12:]
    header = (5).to_bytes(3, "little") * 2 + (19).to_bytes(3, "little") * 2 + bytes(4)
    frame = b"ANMF" + struct.pack("<I", 16 + len(still)) + header + still
    sides = (59).to_bytes(3, "little") + (39).to_bytes(3, "little")
    data = riff(b"VP8X" + struct.pack("<I", 10) + b"\x12\0\0\0" + sides,
                b"ANIM" + struct.pack("<I", 6) + bytes(6), frame)  # fmt: skip
    assert same(data)


@each("compression", [None, "tiff_lzw", "tiff_deflate", "tiff_adobe_deflate", "packbits"])
@each("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_tiff_of_every_kind(mode, compression):
    image = Image.fromarray(np.asarray(scene().convert("L")).astype(np.uint16) * 257)
    if mode != "I;16":
        image = (glass() if mode in ("LA", "RGBA") else scene()).convert(mode)
    data = encoded(image, "TIFF", compression=compression)
    assert np.abs(load_image(data, SIZE).astype(int) - by_pillow(data)).mean() < 2


def test_a_tiff_of_big_endian_numbers_and_of_16_bits_in_colour():
    deep = (np.asarray(scene()).astype(">u2") * 257).tobytes()
    tags = [(258, 3, 3, 158), (262, 3, 1, 2 << 16), (277, 3, 1, 3 << 16), (279, 4, 1, len(deep))]
    tags += [(259, 3, 1, 1 << 16), (273, 4, 1, 164)]
    data = tiff(60, 40, tags, bytes(158 - 122) + struct.pack(">3H", 16, 16, 16) + deep, ">")
    assert data[158:164] == struct.pack(">3H", 16, 16, 16)
    assert np.abs(load_image(data, SIZE).astype(int) - fit(np.asarray(scene()), SIZE)).max() <= 1


def test_a_tiff_in_tiles_and_in_strips_out_of_order():
    grey = np.asarray(scene(64, 32).convert("L"))
    tiles = [grey[y : y + 16, x : x + 32].tobytes() for y in (0, 16) for x in (0, 32)]
    start = 8 + 2 + 12 * 11 + 4
    place = struct.pack("<4I", *(start + 32 + 512 * k for k in (3, 2, 1, 0))) + struct.pack("<4I", *[512] * 4)
    tags = [(322, 4, 1, 32), (323, 4, 1, 16), (324, 4, 4, start), (325, 4, 4, start + 16), (284, 3, 1, 1)]
    data = tiff(64, 32, tags, b"".join([place, *reversed(tiles)]))
    assert len(data) == start + 32 + 2048
    assert np.array_equal(load_image(data, SIZE), fit(grey, SIZE))


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_is_an_error_and_the_quick_check_mostly_finds_it(kind, tmp_path):
    data = encoded(noise(), kind)
    path = tmp_path / "image"
    for stop in range(0, len(data) - 8, max(1, len(data) // 40)):
        path.write_bytes(data[:stop])
        for read in (lambda: load_image(path, SIZE), lambda: check_image(path)):
            with pytest.raises(InputError) as caught:
                read()
            assert caught.value.code == "image-unreadable"
    path.write_bytes(data)
    check_image(path)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bytes_give_an_image_or_one_line(kind, capfd):
    rng, data = np.random.default_rng(1), encoded(scene(), kind)
    read = 0
    for _ in range(300):
        damaged = bytearray(data)
        for place in rng.integers(0, min(len(data), 400), 3):
            damaged[place] = rng.integers(0, 256)
        try:
            load_image(bytes(damaged), SIZE)
            read += 1
        except InputError as error:
            assert error.code in ("image-unreadable", "image-too-large") and "\n" not in str(error)
    assert 0 < read < 300


@needs_avif
@pytest.mark.parametrize("kind", [b"ipco", b"ipma", b"pitm", b"iinf", b"iloc", b"ispe", b"av1C", b"meta"])
def test_an_avif_that_lacks_a_part_is_damaged_and_not_a_mistake_of_ours(kind):
    data = encoded(scene(), "AVIF")
    assert kind in data
    with pytest.raises(InputError, match=r"damaged|no still image|Invalid|cannot be decoded") as caught:
        load_image(data.replace(kind, b"free", 1), SIZE)
    assert caught.value.code == "image-unreadable" and "local variable" not in str(caught.value)


TURNED = {number: Image.Transpose[name] for number, name in (
    (2, "FLIP_LEFT_RIGHT"), (3, "ROTATE_180"), (4, "FLIP_TOP_BOTTOM"), (5, "TRANSPOSE"),
    (6, "ROTATE_90"), (7, "TRANSVERSE"), (8, "ROTATE_270"),
)}  # fmt: skip


@pytest.mark.parametrize("number", TURNED)
@pytest.mark.parametrize("kind", ["WEBP", "TIFF", pytest.param("AVIF", marks=needs_avif)])
def test_the_orientation_is_honoured(kind, number):
    exif = Image.Exif()
    exif[0x0112] = number
    stored = scene(40, 40).transpose(TURNED[number])
    options = {"WEBP": {"lossless": True}, "TIFF": {}, "AVIF": {"quality": 100}}[kind]
    data = encoded(stored, kind, exif=exif, **options)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    assert np.abs(load_image(data, SIZE).astype(int) - fit(upright, SIZE)).max() <= 4
    assert np.abs(load_image(data, SIZE).astype(int) - fit(np.asarray(scene(40, 40)), SIZE)).mean() < 8


@each("tags, words", [
    ([(258, 3, 1, 32), (339, 3, 1, 3)], "32 bits per channel"), ([(339, 3, 1, 3)], "damaged"),
    ([(262, 3, 1, 8)], "damaged"), ([(50706, 1, 4, 0)], "raw image"),
])  # fmt: skip
def test_a_tiff_that_is_not_read_is_refused_with_a_remedy(tags, words):
    with pytest.raises(InputError, match=f"{words}.*(save|export) it as") as caught:
        load_image(tiff(8, 8, tags, bytes(256)), SIZE)
    assert caught.value.code == "image-unreadable"


@pytest.mark.parametrize("mode, compression", [("RGB", "jpeg"), ("1", "group4")])
def test_a_tiff_that_is_compressed_as_scanners_do_is_read(mode, compression):
    assert same(encoded(noise().convert(mode), "TIFF", compression=compression))


@pytest.mark.parametrize("kind, feature", [("WEBP", "webp"), ("AVIF", "avif")])
def test_a_pillow_that_cannot_decode_says_what_to_install(kind, feature, monkeypatch):
    data = {"WEBP": riff(b"VP8 " + bytes(4)), "AVIF": struct.pack(">I", 16) + b"ftypavif" + bytes(4)}[kind]
    monkeypatch.setattr(features, "check", lambda name: False)
    monkeypatch.setattr(features, "modules", {"webp": ()})
    with pytest.raises(
        InputError, match=rf"Pillow {PIL.__version__} here cannot read.*pip install"
    ) as caught:
        opened(kind, io.BytesIO(data))
    assert caught.value.code == "package-missing"


def test_heic_without_its_decoder_says_what_to_install_and_to_switch(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(InputError, match=r"pip install 'pillow-heif\S*'.*Most Compatible") as caught:
        opened("HEIF", io.BytesIO())
    assert caught.value.code == "package-missing"


@each("content, words", [
    (b"", "has 0 bytes"), (bytes(600), "zeros only"), (b"\n <!DOCTYPE html><html>", "an HTML page"),
    (b"<html lang='en'>", "an HTML page"), (b"%PDF-1.4", "export its pages"),
    (b"<?xml version='1.0'?>\n<svg xmlns", "SVG drawing; export it as PNG"), (b'{"error": 404}', "is a text"),
    (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"), (b"bplist00x", "iCloud"),
    (b"PK\3\4xx", "unpack it"), (b"\0\0\0\x18ftypmp42" + bytes(9), "take stills"),
    (b"RIFF\0\0\0\0AVI LIST", "take stills"), (b"\0\0\0\x18ftypcrx " + bytes(9), "raw image of a camera"),
    (b"no image at all", "is not a JPEG, PNG, WebP, AVIF, HEIC, GIF, TIFF, BMP or PPM image"),
])  # fmt: skip
def test_what_is_no_image_is_named(content, words):
    with pytest.raises(InputError, match=words) as caught:
        load_image(content, SIZE, name="x.jpg")
    assert caught.value.code == "image-unreadable" and str(caught.value).startswith(
        "image-unreadable: 'x.jpg' "
    )


@pytest.mark.parametrize("kind", [*KINDS, "BMP", "PPM", "JPEG"])
def test_images_that_together_take_more_than_the_limit_are_read_one_after_another(kind, tmp_path):
    options = {"AVIF": {"speed": 10}, "JPEG": {"progressive": True}, "WEBP": {"method": 0}}.get(kind, {})
    (tmp_path / "image").write_bytes(encoded(Image.new("RGB", (2400, 1600), "red"), kind, **options))
    for _ in range(24):
        load_image(tmp_path / "image", SIZE)
