"""JPEG: passes on the tables and the frame that the decoder needs, and the colour profile, without metadata.

For an image in several scans the decoder keeps all coefficients, two bytes each, whatever the decoded size,
and a few bytes can code a scan of all pixels: it is not plain.
"""

import io
import struct
from typing import BinaryIO

from tinytrain.episode.imagefile.orientation import orientation
from tinytrain.episode.imagefile.stored import CODE, MAX_PROFILE, Stored, broken, joined

MAX_PIXELS = 128_000_000  # large, because it is decoded at a fraction of its size
MAX_SEGMENTS = 4096
MAX_HEAD = 2**20
MAX_JUNK = 2**16  # bytes between segments, which are read one by one
BLOCK = 64 * 2  # bytes of the coefficients of 8 x 8 samples
ROWS = 48  # rows of samples per component that a decoder holds at most

HUFFMAN, SEQUENTIAL, PROGRESSIVE = (0xC0, 0xC1), (0xC0, 0xC1, 0xC9), (0xC2, 0xCA)
# With lossless and hierarchical frames, which are refused.
FRAMES = (*SEQUENTIAL, *PROGRESSIVE, 0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF)
APP1, APP2, START_OF_SCAN, END = 0xE1, 0xE2, 0xDA, 0xD9
KEPT = (*FRAMES, 0xC4, 0xCC, 0xDB, 0xDD, 0xE0, 0xEE, START_OF_SCAN)  # tables, JFIF, Adobe
ALONE = (0x01, *range(0xD0, 0xD9))
EXIF, XMP, ICC = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0", b"ICC_PROFILE\0"


def read(file: BinaryIO) -> Stored:
    """The header of a JPEG. Raises InputError ``image-unreadable``."""
    head, frame, exif, xmp = bytearray(b"\xff\xd8"), None, b"", b""
    icc: dict[bytes, bytes] = {}  # parts by number
    file.seek(2)
    for marker, body in _segments(file):
        if marker in FRAMES:
            if frame is not None:
                raise broken("cannot be decoded (it has two frames)")
            frame = _Frame(marker, body)
        elif marker == APP1 and body.startswith(EXIF):
            exif = exif or body
        elif marker == APP1 and body.startswith(XMP):
            xmp = body
        elif marker == APP2 and body.startswith(ICC) and sum(map(len, icc.values())) <= MAX_PROFILE:
            icc[body[len(ICC) : len(ICC) + 1]] = body
        if marker in KEPT:
            head += struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
        if len(head) > MAX_HEAD:
            raise broken(f"cannot be decoded (more than {MAX_HEAD:,} bytes of tables)")
    if frame is None:
        raise broken("cannot be decoded (it has no frame)")
    several = frame.kind in PROGRESSIVE or body[:1] != bytes([frame.components])
    plain = frame.kind in HUFFMAN and not several
    held = frame.rows + frame.coefficients * several + CODE * (not plain)
    return Stored(
        joined(bytes(head), file, file.tell()), frame.width, frame.height, held,
        orientation(exif, xmp), b"".join(icc[part][len(ICC) + 2 :] for part in sorted(icc)),
        plain=plain,
    )  # fmt: skip


def is_whole(file: BinaryIO) -> bool:
    """Whether the file ends with the end marker; a truncated file does not."""
    file.seek(max(0, file.seek(0, io.SEEK_END) - 64))
    return file.read().rstrip(b"\0\r\n ").endswith(bytes([0xFF, END]))


def _segments(file: BinaryIO):
    """(marker, body) of every segment up to the start of the first scan."""
    left = MAX_JUNK
    for _ in range(MAX_SEGMENTS):
        start = file.tell()
        marker = _marker(file, left)
        left -= file.tell() - start - 2
        if marker in ALONE:
            continue
        size = file.read(2)
        body = file.read(max(0, int.from_bytes(size) - 2))
        if marker == END or len(size) + len(body) != max(2, int.from_bytes(size)):
            raise broken("cannot be decoded (the header is cut off)")
        yield marker, body
        if marker == START_OF_SCAN:
            return
    raise broken(f"cannot be decoded (more than {MAX_SEGMENTS:,} segments before its pixels)")


def _marker(file: BinaryIO, most: int) -> int:
    """The next marker, after at most `most` bytes of padding."""
    before = b""
    for _ in range(most + 2):
        byte = file.read(1)
        if not byte:
            raise broken("cannot be decoded (the header is cut off)")
        if before == b"\xff" and byte not in (b"\0", b"\xff"):
            return byte[0]
        before = byte
    raise broken(f"cannot be decoded (more than {MAX_JUNK:,} bytes between its segments)")


class _Frame:
    """The frame header: size, components, and the bytes that a decoder holds for them."""

    def __init__(self, marker: int, body: bytes):
        if marker not in SEQUENTIAL + PROGRESSIVE or len(body) < 6 or len(body) != 6 + 3 * body[5]:
            raise broken(f"cannot be decoded (frame {marker:#x} of {len(body)} bytes)")
        self.height, self.width = struct.unpack_from(">HH", body, 1)
        self.components, self.kind = body[5], marker
        factors = [(byte >> 4, byte & 15) for byte in body[7::3]]
        if not factors or not all(1 <= factor <= 4 for pair in factors for factor in pair):
            raise broken("cannot be decoded (sampling factors)")
        # The file stores the horizontal factor first.
        wide, tall = max(h for h, _ in factors), max(v for _, v in factors)
        down, across = -(-self.height // (8 * tall)), -(-self.width // (8 * wide))
        self.coefficients = sum(down * v * across * h * BLOCK for h, v in factors)
        self.rows = self.width * self.components * ROWS
