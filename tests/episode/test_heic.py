"""HEIC, where pillow-heif is installed. The oracle is pillow-heif's own reading of the whole file."""

import io

import numpy as np
import PIL
import pytest
from hostileframes import claiming, heic
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.episode.decode import check_image, fit, load_image

pillow_heif = pytest.importorskip("pillow_heif")
if tuple(map(int, PIL.__version__.split(".")[:2])) < (11, 1):
    pytest.skip("pillow-heif needs Pillow 11.1", allow_module_level=True)
SIZE = 32


def scene(width=600, height=400) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    red, green = x * 255 // (width - 1), y * 255 // (height - 1)
    return Image.fromarray(np.stack([red, green, (red + green) // 3], axis=-1).astype(np.uint8))


def difference(data: bytes, image: Image.Image) -> int:
    return np.abs(load_image(data, SIZE).astype(int) - fit(np.asarray(image.convert("RGB")), SIZE)).max()


@pytest.mark.parametrize("size", [(600, 400), (401, 603), (64, 64), (17, 90)])
@pytest.mark.parametrize("chroma", [420, 444])
def test_an_image_is_read_as_its_library_reads_it(size, chroma):
    data = heic(scene(*size), chroma=chroma, quality=90)
    whole = pillow_heif.HeifImageFile(io.BytesIO(data))
    assert difference(data, whole) <= 1 and load_image(data, SIZE).std() > 20


def test_what_lies_beside_the_image_is_left_out():
    image = scene()
    image.info |= {"exif": b"Exif\0\0" + bytes(50_000), "xmp": b"x" * 50_000}
    made, file = pillow_heif.from_pillow(image), io.BytesIO()
    made.add_from_pillow(Image.new("RGB", (90, 90)))
    made.save(file)
    assert pillow_heif.HeifImageFile(io.BytesIO(file.getvalue())).n_frames == 2
    assert difference(file.getvalue(), scene()) <= 4


@pytest.mark.parametrize("number", [3, 6, 8])
def test_the_turn_of_the_file_is_honoured_once(number):
    exif, image = Image.Exif(), scene()
    exif[0x0112] = number
    image.info["exif"] = exif.tobytes()
    data = heic(image, quality=95)
    assert b"irot" in data and difference(data, pillow_heif.HeifImageFile(io.BytesIO(data))) <= 1


def test_what_is_transparent_is_white():
    image = scene(64, 64).convert("RGBA")
    image.putalpha(0)
    assert load_image(heic(image), SIZE).min() > 250


def test_sizes_that_contradict_each_other_and_damage_are_errors(tmp_path):
    data, path = heic(scene()), tmp_path / "x.heic"
    with pytest.raises(InputError, match="claims 60000 x 60000") as caught:
        load_image(claiming(data, 60_000, 60_000), SIZE)
    assert caught.value.code == "image-too-large"
    for stop in range(0, len(data) - 8, len(data) // 30):
        path.write_bytes(data[:stop])
        with pytest.raises(InputError):
            load_image(path, SIZE)
    path.write_bytes(data)
    check_image(path)
    rng, read = np.random.default_rng(1), 0
    for _ in range(200):
        damaged = bytearray(data)
        for place in rng.integers(0, 700, 3):
            damaged[place] = rng.integers(0, 256)
        try:
            load_image(bytes(damaged), SIZE)
            read += 1
        except InputError as error:
            assert "\n" not in str(error)
    assert 0 < read < 200
