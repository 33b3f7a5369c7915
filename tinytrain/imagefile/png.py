"""PNG: size, palette, transparency and pixels; texts, profiles and animations are left out.

The decoder reads no further than the pixels, but would hold whatever else it is given.
"""

import struct
import zlib
from typing import BinaryIO

from tinytrain.imagefile.orientation import orientation
from tinytrain.imagefile.stored import PIXEL_BYTES, Stored, broken, joined

MAGIC = b"\x89PNG\r\n\x1a\n"
MAX_PIXELS = PIXEL_BYTES // 4
MAX_CHUNKS = 100_000
MAX_KEPT = 1024  # bytes of a chunk that pixels need: 768 of a palette
MAX_TEXT = 2**20  # bytes of data about the image, unpacked
BLOCK = 2**20
EXIF_TEXT, XMP_TEXT = b"Raw profile type exif", b"XML:com.adobe.xmp"


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.imagefile.read`."""
    head, first, found = bytearray(MAGIC), 0, {}
    for kind, start, size in chunks(file):
        if kind == b"IDAT":
            first = first or start - 8
        elif kind in (b"IHDR", b"PLTE", b"tRNS") and not first:
            if size > MAX_KEPT:
                raise broken(f"cannot be decoded ({size:,} bytes of {kind.decode()})")
            file.seek(start - 8)
            head += file.read(8 + size + 4)
        elif kind in ABOUT and size <= MAX_TEXT:
            file.seek(start)
            found |= ABOUT[kind](file.read(size))
    if not first or head[12:16] != b"IHDR":
        raise broken("cannot be decoded (no header or no pixels)")
    width, height = struct.unpack_from(">II", head, 16)
    turn = orientation(found.get("exif", b""), found.get("xmp", b""))
    return Stored(
        "PNG", joined(bytes(head), file, first, length), width, height, MAX_PIXELS, orientation=turn
    )


def check(file: BinaryIO) -> None:
    """Raises InputError ``picture-broken`` unless every chunk is there and has its checksum."""
    for kind, start, size in chunks(file):
        file.seek(start)
        found, left = zlib.crc32(kind), size
        while left and (data := file.read(min(left, BLOCK))):
            found, left = zlib.crc32(data, found), left - len(data)
        if left or file.read(4) != struct.pack(">I", found):
            raise broken(f"is damaged (checksum of {kind.decode()} at byte {start})")
        if kind == b"IEND":
            return
    raise broken("is cut off or damaged")


def chunks(file: BinaryIO):
    """(kind, first byte, bytes) of every chunk up to the end of the image, or to what is no chunk."""
    at = len(MAGIC)
    for _ in range(MAX_CHUNKS):
        file.seek(at)
        header = file.read(8)
        if len(header) < 8 or not header[4:].isalpha():
            return
        size, kind = struct.unpack(">I4s", header)
        yield kind, at + 8, size
        if kind == b"IEND":
            return
        at += size + 12
    raise broken(f"has more than {MAX_CHUNKS:,} chunks")


def _exif(data: bytes) -> dict:
    return {"exif": data}


def _compressed_text(data: bytes) -> dict:
    key, _, rest = data.partition(b"\0")
    return _text(key + b"\0" + _unpacked(rest[1:])) if key == EXIF_TEXT else {}


def _text(data: bytes) -> dict:
    """EXIF data in hexadecimal digits, below three lines of heading."""
    key, _, text = data.partition(b"\0")
    try:
        return {"exif": bytes.fromhex(b"".join(text.split(b"\n")[3:]).decode())} if key == EXIF_TEXT else {}
    except ValueError:
        return {}


def _international_text(data: bytes) -> dict:
    key, _, rest = data.partition(b"\0")
    text = rest[2:].split(b"\0", 2)
    if key != XMP_TEXT or len(text) != 3:
        return {}
    return {"xmp": _unpacked(text[2]) if rest[0] else text[2]}


def _unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, MAX_TEXT)
    except zlib.error:
        return b""


ABOUT = {b"eXIf": _exif, b"tEXt": _text, b"zTXt": _compressed_text, b"iTXt": _international_text}
