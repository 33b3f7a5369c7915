"""HEIC: the images of iPhones and of other phones, if the extra `heic` is installed.

Passes on the main image, which may consist of tiles, and its profile, without its small copies and other
images.
"""

import struct
from importlib.util import find_spec
from typing import BinaryIO

from tinytrain.base.errors import InputError
from tinytrain.episode.imagefile import hevc, isobmff
from tinytrain.episode.imagefile.isobmff import Item, Items
from tinytrain.episode.imagefile.stored import PIXEL_BYTES, Stored, broken, refuse_more, whole

BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx")
EXTRA, MODULE = "heic", "pillow_heif"
PHONE = "or let the phone save JPEG (iPhone: Settings > Camera > Formats > Most Compatible)"
CODED, TILED = (b"hvc1", b"hev1"), b"grid"
KEPT = (b"ispe", b"pixi", b"hvcC", b"colr", b"clap")  # the last cuts off what fills up blocks
MAX_TILES = 1024
MAX_CODED = 32 * 10**6
COPIES = 3  # of the coded bytes
# Per pixel: the decoder's RGB, its copy and Pillow's image, of which two exist at once.
PIXEL, COUNTED = 7, 4  # Pillow's image is counted by the caller
DECODER = 3  # bytes per pixel of a picture that the decoder notes about its blocks
CODE = 12 * 10**6  # bytes of the decoder itself and its workers


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.episode.imagefile.read`."""
    if not _installed():
        from tinytrain.base.extras import install

        raise InputError("picture-decoder", f"is a HEIC image; to read it, run {install(EXTRA)}; {PHONE}")
    items = isobmff.read(file, length)
    main = items.items[items.main]
    width, height = main.size
    refuse_more(width, height, PIXEL_BYTES // PIXEL)
    parts, references = _parts(file, items)
    found = [hevc.sequence(item.first(b"hvcC") or b"", data) for item, data in parts if item.kind != TILED]
    sample_bytes = max(picture.sample_bytes for picture in found)
    largest = max(picture.width * picture.height for picture in found)
    pixels = width * height
    held = CODE + COPIES * sum(len(data) for _, data in parts) + (PIXEL - COUNTED) * pixels
    held += int(sample_bytes * (pixels + largest)) + DECODER * largest
    stream = whole(isobmff.file_of(b"heic", parts, references))
    return Stored(
        "HEIF", stream, width, height, PIXEL_BYTES // PIXEL, held, main.orientation, True, _pillow_image,
        main.profile,
    )  # fmt: skip


def _installed() -> bool:
    try:
        return find_spec(MODULE) is not None
    except ValueError:  # kept from being imported
        return False


def _pillow_image(stream: BinaryIO):
    from pillow_heif import HeifImageFile

    return HeifImageFile(stream)


def _parts(file: BinaryIO, items: Items) -> tuple[list[tuple[Item, bytes]], list]:
    """The main item and its tiles with their data, and the references of a new file between them."""
    main = items.items[items.main]
    if main.kind in CODED:
        return [(main.cleaned(KEPT), isobmff.data_of(file, main, MAX_CODED))], []
    if main.kind != TILED:
        kind = main.kind.decode("latin-1")
        raise broken(f"is a HEIC image of kind {kind!r}, which is not read; save it as JPEG")
    grid = isobmff.data_of(file, main, 64)
    numbers = items.references.get((b"dimg", items.main), [])
    if len(grid) < 8 or not 0 < len(numbers) == (grid[2] + 1) * (grid[3] + 1) <= MAX_TILES:
        raise broken("cannot be decoded (its tiles are damaged)")
    if struct.unpack_from(">II" if grid[1] & 1 else ">HH", grid.ljust(12, b"\0"), 4) != main.size:
        raise broken("cannot be decoded (its sizes contradict each other)")
    parts, left = [(main.cleaned(KEPT), grid)], MAX_CODED
    for number in numbers:
        item = items.items.get(number)
        if item is None or item.kind not in CODED:
            raise broken("cannot be decoded (its tiles are damaged)")
        data = isobmff.data_of(file, item, left)
        left -= len(data)
        parts.append((item.cleaned(KEPT), data))
    return parts, [(b"dimg", 1, range(2, len(parts) + 1))]
