"""BMP: limits the length of the header and the bytes of run-length coded pixels."""

import struct
from typing import BinaryIO

from tinytrain.episode.imagefile.stored import PIXEL_BYTES, Stored, broken, joined

MAX_PIXELS = PIXEL_BYTES // 4
MAX_CODED = 2_100_000  # run-length coded pixels, which Pillow decodes one by one in Python
HEADERS = (12, 40, 52, 56, 64, 108, 124)
START = 14 + 124 + 4 * 256 * 256  # the pixels begin before this byte
RUNS = (1, 2)


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.episode.imagefile.read`."""
    data = file.read(34).ljust(34, b"\0")
    (size,) = struct.unpack_from("<I", data, 14)
    if size not in HEADERS:
        raise broken(f"cannot be decoded (header of {size:,} bytes)")
    width, height = struct.unpack_from("<HH" if size == 12 else "<Ii", data, 18)
    pixels, most = width * abs(height), MAX_PIXELS
    if size > 12 and struct.unpack_from("<I", data, 30)[0] in RUNS:
        most = MAX_CODED
        # At most two bytes per pixel and per end of a row. Codes without pixels could go on for ever.
        length = min(length, START + 2 * (pixels + abs(height)))
    return Stored("BMP", joined(b"", file, 0, length), width, abs(height), most)
