"""HEIC files that ask for as much memory or time as they can, as table `HOSTILE`. Needs pillow-heif."""

import io
import struct

import numpy as np
from hostileimages import square
from PIL import Image

from tinytrain.episode.imagefile import isobmff
from tinytrain.episode.imagefile.isobmff import Item


def heic(image: Image.Image, **options) -> bytes:
    import pillow_heif

    file = io.BytesIO()
    pillow_heif.from_pillow(image).save(file, **options)
    return file.getvalue()


def flat(limit: float, mode="RGB", **options) -> bytes:
    side = square(limit)
    return heic(Image.new(mode, (side, side)), **options)


def main_item(data: bytes) -> tuple[Item, bytes]:
    """The main item of a file and its data."""
    file = io.BytesIO(data)
    items = isobmff.read(file, len(data))
    item = items.items[items.main]
    return item, isobmff.data_of(file, item, len(data))


def tiled(tiles: list[bytes], across: int, width: int, height: int, *more: tuple[bytes, bytes]) -> bytes:
    """A HEIC of the images in `tiles`, `across` in a row, cut to a size, with `more` properties."""
    size = bytes(4) + struct.pack(">II", width, height)
    grid = Item(b"grid", properties=[(b"ispe", size), *more])
    form = bytes([0, 1, len(tiles) // across - 1, across - 1]) + struct.pack(">II", width, height)
    parts = [(grid, form), *map(main_item, tiles)]
    return b"".join(isobmff.file_of(b"heic", parts, [(b"dimg", 1, range(2, len(parts) + 1))]))


def claiming(data: bytes, width: int, height: int) -> bytes:
    at = data.index(b"ispe") + 8
    return data[:at] + struct.pack(">II", width, height) + data[at + 8 :]


def noise(side: int) -> bytes:
    return heic(Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)))


def pictures(count: int) -> bytes:
    """An image whose data are the same picture again and again."""
    item, data = main_item(flat(4))
    return b"".join(isobmff.file_of(b"heic", [(item, data * count)], []))


TILE = 512 * 512e-6
HOSTILE = {
    "heic of kind flat": lambda: flat(16, chroma=420),
    "heic of kind full colour": lambda: flat(12, chroma=444),
    "heic of kind noise": lambda: noise(2_700),
    "heic of kind tiled": lambda: tiled([flat(TILE)] * 108, 12, 6_144, 4_352),
    "heic larger tiled": lambda: tiled([flat(TILE)] * 180, 15, 7_680, 6_144),
    "heic claims": lambda: claiming(flat(0.01), 60_000, 60_000),
    "heic claims less": lambda: claiming(flat(25), 64, 64),
    "heic large tiles": lambda: tiled([flat(9)] * 4, 2, 64, 64),
    "heic many tiles": lambda: tiled([flat(64 * 64e-6)] * 900, 30, 64, 64),
    "heic pictures": lambda: pictures(500),
}
