"""GIF: passes on the palettes and the pixels of the first frame, without texts and other frames."""

import struct
from typing import BinaryIO

from tinytrain.episode.imagefile.stored import PIXEL_BYTES, Stored, broken, joined

MAGIC = b"GIF8"
MAX_PIXELS = PIXEL_BYTES // 4
MAX_BLOCKS = 100_000  # before the pixels
CODED = 2  # bytes per pixel of the longest code, with the lengths of its blocks
EXTENSION, FRAME, CONTROL, TRANSPARENT = b"!", b",", b"\xf9", 1
END, TRAILER = b"\0;", 64
CUT_OFF = "is cut off before its first frame"


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.episode.imagefile.read`."""
    head = _exactly(file, 13)
    wide, tall, flags = struct.unpack_from("<HHB", head, 6)
    head += _exactly(file, _palette_bytes(flags))
    control, left = b"", MAX_BLOCKS
    while (mark := _exactly(file, 1)) == EXTENSION:
        label = _exactly(file, 1)
        first, left = _skipped(file, left)
        if label == CONTROL and len(first) == 4:
            # Kept: the transparent colour. Left out: how the frame is removed again, and its time.
            control = EXTENSION + CONTROL + bytes([4, first[0] & TRANSPARENT, 0, 0, first[3], 0])
    if mark != FRAME:
        raise broken("has no frame")
    start = file.tell() - 1
    left_edge, top, width, height, _ = struct.unpack("<HHHHB", _exactly(file, 9))
    wide, tall = max(wide, left_edge + width), max(tall, top + height)
    # Codes without pixels could go on for ever.
    stop = min(length, start + 2**12 + CODED * width * height)
    file.seek(max(0, length - TRAILER))
    complete = file.read().rstrip(b"\0\r\n ").endswith(END)
    stream = joined(head + control, file, start, stop)
    return Stored("GIF", stream, wide, tall, MAX_PIXELS, complete=complete)


def _exactly(file: BinaryIO, count: int) -> bytes:
    if len(data := file.read(count)) < count:
        raise broken(CUT_OFF)
    return data


def _palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 128 else 0


def _skipped(file: BinaryIO, left: int) -> tuple[bytes, int]:
    """The first block of an extension, whose other blocks are skipped, and how many may still come."""
    first = None
    while (size := _exactly(file, 1)[0]) or first is None:
        block = _exactly(file, size)
        first = block if first is None else first
        left -= 1
        if left < 0:
            raise broken(f"has more than {MAX_BLOCKS:,} blocks before its first frame")
        if not size:
            break
    return first, left
