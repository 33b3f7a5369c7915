"""AVIF: passes on the main image and its transparency, and its profile, without other images and films."""

from typing import BinaryIO

from tinytrain.episode.imagefile import av1, isobmff
from tinytrain.episode.imagefile.isobmff import Items
from tinytrain.episode.imagefile.stored import PIXEL_BYTES, Stored, broken, refuse_more, require, whole

BRANDS = (b"avif", b"avis")
CODED = b"av01"
MAX_CODED = 32 * 10**6
COPIES = 3  # of the coded bytes
# Per pixel: RGB of the decoder, its copy and Pillow's image, of which two exist at once; notes on blocks.
PIXEL, COUNTED = 8, 4  # Pillow's image is counted by the caller
SAMPLES = 2  # of every plane: before and after film grain
KEPT = (b"ispe", b"pixi", b"av1C", b"colr", b"auxC")
ALPHA = b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0"


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.episode.imagefile.read`."""
    require("avif", "AVIF", "11.3")
    items = isobmff.read(file, length)
    main, numbers = items.items[items.main], [items.main]
    if main.kind != CODED:
        kind = "tiles" if main.kind == b"grid" else f"kind {main.kind.decode('latin-1')!r}"
        raise broken(f"is an AVIF image of {kind}, which is not read; save it as PNG or JPEG")
    if alpha := _alpha(items):
        numbers.append(alpha)
    width, height = main.size
    refuse_more(width, height, PIXEL_BYTES // PIXEL)
    parts, held = [], 0
    for number in numbers:
        item = items.items[number]
        data = isobmff.data_of(file, item, MAX_CODED)
        frame = av1.sequence(data)
        pixels = max(frame.width * frame.height, width * height)
        held += COPIES * len(data) + int(SAMPLES * frame.sample_bytes * pixels)
        parts.append((item.cleaned(KEPT), data))
        if item.size != (width, height) or frame.width < width or frame.height < height:
            raise broken("cannot be decoded (its sizes contradict each other)")
    references = [(b"auxl", 2, [1])] if alpha else []
    if alpha in items.references.get((b"prem", items.main), []):
        references.append((b"prem", 1, [2]))
    stream = whole(isobmff.file_of(b"avif", parts, references))
    held += (PIXEL - COUNTED) * width * height
    most = PIXEL_BYTES // PIXEL
    return Stored("AVIF", stream, width, height, most, held, main.orientation, True, profile=main.profile)


def _alpha(items: Items) -> int | None:
    """The number of the item with the transparency of the main one."""
    for number in items.refer_to(b"auxl", items.main):
        item = items.items.get(number)
        if item and item.kind == CODED and (item.first(b"auxC") or b"")[4:].startswith(ALPHA[:-1]):
            return number
    return None
