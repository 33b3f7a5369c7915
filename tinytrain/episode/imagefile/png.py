"""PNG: passes on size, palette, transparency, profile and pixels, without texts and animations.

The decoder stops after the pixels, but it would keep all chunks before them.
"""

import struct
import zlib
from typing import BinaryIO

from tinytrain.episode.imagefile.orientation import orientation
from tinytrain.episode.imagefile.stored import PIXEL_BYTES, Stored, broken, joined

MAGIC = b"\x89PNG\r\n\x1a\n"
MAX_PIXELS = PIXEL_BYTES // 4
MAX_CHUNKS = 100_000
MAX_KEPT = 1024  # bytes of a chunk that pixels need; a palette has 768
MAX_ABOUT = 2**20  # bytes of a metadata chunk, packed and unpacked
BLOCK = 2**20
EXIF_TEXT, XMP_TEXT = b"Raw profile type exif\0", b"XML:com.adobe.xmp\0"


def read(file: BinaryIO) -> Stored:
    """The header of a PNG. Raises InputError ``image-unreadable``."""
    first, needed, about = 0, {}, {}
    # Only the last chunk of a kind is kept, because there can be any number of them.
    for kind, start, size in chunks(file):
        if kind == b"IDAT":
            first = first or start - 8
        elif kind in NEEDED and not first:
            if size > MAX_KEPT:
                raise broken(f"cannot be decoded ({size:,} bytes of {kind.decode()})")
            file.seek(start - 8)
            needed[kind] = file.read(8 + size + 4)
        elif kind in ABOUT and _starts_with(file, start, size, ABOUT[kind][0]):
            about.pop(kind, None)
            about[kind] = start, size
    head = MAGIC + b"".join(needed.values())
    if not first or head[12:16] != b"IHDR":
        raise broken("cannot be decoded (no header or no pixels)")
    width, height = struct.unpack_from(">II", head, 16)
    known = _about(file, about)
    profile = known.pop("profile", b"")
    turn = orientation(**known)
    return Stored(joined(head, file, first), width, height, orientation=turn, profile=profile)


def check(file: BinaryIO) -> None:
    """Raises InputError ``image-unreadable`` for a truncated chunk, or a damaged one that pixels need."""
    for kind, start, size in chunks(file):
        if kind not in (*NEEDED, b"IDAT", b"IEND"):
            continue
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
    """(kind, first byte, bytes) of every chunk up to the end of the image or the first invalid chunk."""
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


def _starts_with(file: BinaryIO, start: int, size: int, key: bytes) -> bool:
    """Whether a chunk starts with `key` and is small enough to be read."""
    file.seek(start)
    return len(key) <= size <= MAX_ABOUT and file.read(len(key)) == key


def _about(file: BinaryIO, chosen: dict[bytes, tuple[int, int]]) -> dict[str, bytes]:
    """EXIF data as ``tiff``, XMP data as ``xmp`` and ``profile``, if the `chosen` chunks have them."""
    found = {"tiff": b""}
    for kind, (start, size) in chosen.items():
        key, meaning = ABOUT[kind]
        file.seek(start + len(key))
        found |= meaning(file.read(size - len(key)))
    return found


def _text(text: bytes) -> dict:
    """EXIF data in hexadecimal digits after three header lines."""
    digits = b"".join(text.split(b"\n", 3)[3:]).replace(b"\n", b"")
    try:
        return {"tiff": bytes.fromhex(digits.decode())}
    except ValueError:
        return {}


def _international_text(data: bytes) -> dict:
    text = data[2:].split(b"\0", 2)
    if len(text) != 3:
        return {}
    return {"xmp": _unpacked(text[2]) if data[0] else text[2]}


def _unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, MAX_ABOUT)
    except zlib.error:
        return b""


NEEDED = (b"IHDR", b"PLTE", b"tRNS")
# Kind of chunk -> (prefix of its data, parser of the rest).
ABOUT = {
    b"eXIf": (b"", lambda data: {"tiff": data}),
    b"tEXt": (EXIF_TEXT, _text),
    b"zTXt": (EXIF_TEXT, lambda data: _text(_unpacked(data[1:]))),
    b"iTXt": (XMP_TEXT, _international_text),
    b"iCCP": (b"", lambda data: {"profile": _unpacked(data[data.find(b"\0") + 2 :])}),
}
