"""Files that are too large, damaged or no images are refused by name, and whole ones pass the cheap check."""

import os
import resource
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import each
from imagefiles import bmp_header, encoded, jpeg_header, png_header, scene
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tinytrain.base import confined
from tinytrain.base.errors import InputError
from tinytrain.episode.decode import check_image, load_image


@each("header, limit", [(png_header, 61), (bmp_header, 55), (jpeg_header, 128)])
@each("side", [30_000, 12_000, 60_000])
def test_a_header_that_claims_too_many_pixels_is_refused_before_anything_is_allocated(
    tmp_path, header, limit, side
):
    path = tmp_path / "bomb.img"
    path.write_bytes(header(side, side))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for attempt in (lambda: load_image(path, 128), lambda: check_image(path)):
        with pytest.raises(InputError, match=rf"bomb.img.*limit is {limit} million") as caught:
            attempt()
        assert caught.value.code == "image-too-large"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


@each("mode, limit", [("LA", 20), ("RGBA", 30), ("I;16", 30), ("RGB", 61), ("L", 61)])
def test_kinds_that_take_more_memory_to_decode_may_have_fewer_pixels(tmp_path, mode, limit):
    colour_type = {"LA": 4, "RGBA": 6, "I;16": 0, "RGB": 2, "L": 0}[mode]
    side = int((limit * 1e6) ** 0.5) + 400
    path = tmp_path / "x.png"
    path.write_bytes(png_header(side, side, 16 if mode == "I;16" else 8, colour_type))
    with pytest.raises(InputError, match=f"limit is {limit} million for its kind") as caught:
        check_image(path)
    assert caught.value.code == "image-too-large"
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
    "ppm of 0 x 0": b"P2 0 0 255\n",
    "ppm of 0 x 5": b"P6 0 5 200\n",
    "pgm of 5 x 0": b"P5 5 0 255\n",
    "bmp of 8 x 0": bmp_header(8, 0),
    "no pixel data": png_header(8, 8),
    "other format": encoded(Image.fromarray(scene()), "PCX"),
}


@each("name", BROKEN)
def test_a_broken_image_is_one_clean_error_that_names_it(tmp_path, name):
    path = tmp_path / "broken.jpg"
    path.write_bytes(BROKEN[name])
    for attempt in (lambda: load_image(path, 32), lambda: load_image(BROKEN[name], 32, "broken.jpg")):
        with pytest.raises(InputError, match=r"broken\.jpg") as caught:
            attempt()
        assert caught.value.code == "image-unreadable"
        assert "\n" not in str(caught.value) and " at 0x" not in str(caught.value)


@each("name", [n for n in BROKEN if n != "no pixel data"])
def test_the_cheap_check_finds_broken_files(tmp_path, name):
    path = tmp_path / "broken.jpg"
    path.write_bytes(BROKEN[name])
    with pytest.raises(InputError) as caught:
        check_image(path)
    assert caught.value.code == "image-unreadable"


@each("kind", ["JPEG", "PNG", "BMP", "PPM"])
def test_the_cheap_check_passes_whole_images(tmp_path, kind):
    path = tmp_path / "whole"
    path.write_bytes(encoded(Image.fromarray(scene()), kind))
    check_image(path)


def test_a_jpeg_with_a_trailer_is_whole(tmp_path):
    path = tmp_path / "motion.jpg"
    path.write_bytes(encoded(Image.fromarray(scene()), "JPEG") + b"a film follows here" * 20)
    check_image(path)


@each("kind", ["JPEG", "PNG", "BMP", "PPM"])
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
            assert error.code in ("image-unreadable", "image-too-large")


@each("make", [lambda p: None, lambda p: p.mkdir(), lambda p: os.mkfifo(p), lambda p: p.symlink_to(p)])
def test_a_path_that_is_not_a_file_is_missing_and_never_blocks(tmp_path, make):
    path = tmp_path / "there.jpg"
    make(path)
    with pytest.raises(InputError, match=r"there\.jpg") as caught:
        load_image(path, 32)
    assert caught.value.code == "file-missing"


def test_a_name_that_becomes_a_pipe_after_a_look_at_it_is_still_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "there.jpg")
    held = os.open(tmp_path / "there.jpg", os.O_RDWR)  # otherwise opening would wait for ever
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    try:
        for read in (check_image, lambda path: load_image(path, 32)):
            with pytest.raises(InputError, match=r"there\.jpg' is not a file") as caught:
                read(tmp_path / "there.jpg")
            assert caught.value.code == "file-missing"
    finally:
        os.close(held)


WITHOUT_A_PIXEL = {"0 x 8": png_header(0, 8), "16 x 0": jpeg_header(16, 0)}


@pytest.mark.parametrize("shape", WITHOUT_A_PIXEL)
def test_an_image_without_a_pixel_is_refused_by_its_shape(tmp_path, shape):
    path = tmp_path / "x.img"
    path.write_bytes(WITHOUT_A_PIXEL[shape])
    for read in (check_image, lambda path: load_image(path, 32)):
        with pytest.raises(InputError, match=f"is {shape} pixels; replace") as caught:
            read(path)
        assert caught.value.code == "image-unreadable"


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


@pytest.mark.parametrize("kind, options", [("WEBP", {}), ("GIF", {}), ("JPEG", {"progressive": True})])
def test_where_no_other_process_starts_its_kinds_are_refused_and_the_others_are_read(
    kind, options, tmp_path, monkeypatch
):
    confined.end()
    monkeypatch.setattr(sys, "executable", "/nothing")
    for kept in ("PNG", "JPEG"):
        assert load_image(encoded(Image.fromarray(scene()), kept), 32).shape == (32, 32, 3)
    path = tmp_path / "x.img"
    path.write_bytes(encoded(Image.fromarray(scene()), kind, **options))
    with pytest.raises(
        InputError, match=r"x\.img' .*none starts here .*No such file.*save it as PNG"
    ) as caught:
        load_image(path, 32)
    assert caught.value.code == "system" and "\n" not in str(caught.value)


def test_the_check_counts_what_the_other_process_takes_as_reading_does(tmp_path):
    data = bytearray(encoded(Image.fromarray(scene()), "JPEG", progressive=True))
    at = data.index(b"\xff\xc2") + 5
    data[at : at + 4] = 2 * (8776).to_bytes(2)
    path = tmp_path / "x.jpg"
    path.write_bytes(data)
    for read in (check_image, lambda path: load_image(path, 32)):
        with pytest.raises(InputError, match="claims 8776 x 8776 pixels, the limit is") as caught:
            read(path)
        assert caught.value.code == "image-too-large"


def test_a_decoder_that_is_killed_costs_one_image_and_not_the_next(monkeypatch):
    good = encoded(Image.fromarray(scene()), "WEBP")
    monkeypatch.setattr(confined, "SECONDS", 0)
    endless = b"P3 4000 4000 255\n" + b"0 " * 8_000_000
    with pytest.raises(
        InputError, match=r"takes more than 256 MB or 0 seconds to decode; scale it down"
    ) as caught:
        load_image(endless, 32)
    assert caught.value.code == "image-too-large"
    assert load_image(good, 32).shape == (32, 32, 3)
