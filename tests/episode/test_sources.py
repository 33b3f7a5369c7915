"""Images as people have them: however the same pixels are given, the same image comes out."""

import io
import sys
from types import ModuleType

import numpy as np
import pytest
from cases import each
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.episode.decode import load_image
from tinytrain.episode.sources import images_of, is_single

SIZE = 24
PIXELS = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)


def as_png(image, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", **options)
    return file.getvalue()


@pytest.fixture
def file(tmp_path):
    (tmp_path / "a.png").write_bytes(as_png(Image.fromarray(PIXELS)))
    return tmp_path / "a.png"


def read(item) -> np.ndarray:
    return images_of([item]).image(0, SIZE)


def test_path_text_bytes_pil_image_and_array_are_the_same_image(file):
    data = file.read_bytes()
    expected = load_image(file, SIZE)
    with Image.open(file) as opened:
        for item in (file, str(file), data, bytearray(data), opened, PIXELS):
            assert is_single(item)
            assert (read(item) == expected).all(), type(item)


def test_a_list_an_array_and_an_object_array_are_the_same_images(file):
    batch = np.stack([PIXELS, PIXELS[::-1]])
    objects = np.empty(2, object)
    objects[:] = [PIXELS, PIXELS[::-1]]
    expected = [read(PIXELS), read(PIXELS[::-1])]
    for many in (list(batch), tuple(batch), batch, objects):
        assert not is_single(many)
        found = images_of(many)
        assert len(found) == 2 and all((found.image(i, SIZE) == expected[i]).all() for i in range(2))


def test_grey_arrays_may_have_a_channel_or_none():
    grey = PIXELS[..., 0]
    assert is_single(grey) and is_single(grey[..., None])
    assert (read(grey) == read(grey[..., None])).all()
    assert (read(grey) == read(np.repeat(grey[..., None], 3, axis=2))).all()
    assert images_of([grey]).image(0, (SIZE, SIZE, 1)).shape == (SIZE, SIZE, 1)


@each("orientation", range(1, 9))
def test_a_pil_image_is_turned_upright_as_its_file_is(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = as_png(Image.fromarray(PIXELS), exif=exif)
    with Image.open(io.BytesIO(data)) as opened:
        assert (read(opened) == load_image(data, SIZE)).all()


@each("mode", ["1", "L", "P", "RGBA", "LA", "CMYK", "I;16", "F"])
def test_pil_images_of_every_mode_are_read(mode):
    image = Image.fromarray(PIXELS)
    given = Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257) if mode == "I;16" else image.convert(mode)
    before = given.tobytes()
    found = read(given)
    assert found.shape == (SIZE, SIZE, 3) and found.std() > 5
    assert given.tobytes() == before and given.mode == mode, "the image given is as it was"
    if mode not in ("CMYK", "F"):
        assert (found == load_image(as_png(given), SIZE)).all()


def test_a_pil_image_that_breaks_while_it_is_read_is_named():
    data = as_png(Image.fromarray(PIXELS))
    with Image.open(io.BytesIO(data[: len(data) // 2])) as half, pytest.raises(InputError) as caught:
        read(half)
    assert caught.value.code == "image-unreadable" and "'image 0'" in str(caught.value)


@each(
    "item,words",
    [
        (3, "type int"),
        (None, "type NoneType"),
        ([PIXELS], "type list"),
        (PIXELS / 255, "float64 array of 40 x 30 x 3"),
        (PIXELS[..., [0, 1, 2, 2]], "uint8 array of 40 x 30 x 4"),
        (PIXELS[:0], "uint8 array of 0 x 30 x 3"),
        (PIXELS[0, 0], "uint8 array of 3"),
        (np.array(None, object), "object array of no axis"),
    ],
)
def test_what_is_no_image_is_refused_by_what_it_is_and_what_to_give(item, words):
    with pytest.raises(
        InputError, match=rf"bad-value: image 1 is a .*{words}; give a path, the bytes"
    ) as caught:
        images_of([PIXELS, item])
    assert "\n" not in str(caught.value)


@each("value", ["a.png", b"bytes", 3, None])
def test_a_list_of_images_is_no_single_value(value):
    with pytest.raises(InputError, match=r"bad-value: .* given; give a list"):
        images_of(value)


def test_an_array_that_may_be_one_image_or_many_is_refused():
    with pytest.raises(InputError, match="40 x 30 x 4 is neither an image"):
        is_single(PIXELS[..., [0, 1, 2, 2]])


def test_a_name_that_is_no_text_can_be_printed():
    assert images_of(["a\udcff.png"]).names == ("a\\xff.png",)


def test_pil_is_not_imported_to_see_that_an_array_is_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "PIL.Image")
    assert is_single(PIXELS) and "PIL.Image" not in sys.modules


def test_an_array_is_none_while_another_thread_imports_pil(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", ModuleType("PIL.Image"))
    assert is_single(PIXELS)
