"""The orientation of an image from its EXIF or XMP data; damaged data is ignored.

Reads only this number. A hostile file can make a reader of all tags hold far more bytes than the file has.
"""

import re
import struct

ORIENTATION = 0x0112
# Bytes and struct letter of the TIFF types that hold whole numbers.
TYPES = {1: "B", 3: "H", 4: "I"}
ENTRY = 12
IN_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


def orientation(tiff: bytes, xmp: bytes = b"") -> int:
    """1 to 8; 1 (upright) if neither has it. `tiff` may start with ``Exif\\0\\0``."""
    number = _in_tiff(re.sub(b"^(?:Exif\0\0){1,2}", b"", tiff))
    if number is None and (match := IN_XMP.search(xmp)):
        number = int(match[1])
    return number if number in range(1, 9) else 1


def _in_tiff(tiff: bytes) -> int | None:
    """The number in the first directory of tags, or None."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return None
    try:
        (at,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, at)
        for entry in range(at + 2, at + 2 + count * ENTRY, ENTRY):
            tag, kind, values = struct.unpack_from(order + "HHI", tiff, entry)
            if tag == ORIENTATION and kind in TYPES and values == 1:
                return struct.unpack_from(order + TYPES[kind], tiff, entry + 8)[0]
    except struct.error:
        pass  # truncated
    return None
