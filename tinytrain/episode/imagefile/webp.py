"""WebP: passes on the bitstream of the first frame and the colour profile, without texts and other frames."""

import struct
from typing import BinaryIO

from tinytrain.episode.imagefile import vp8l
from tinytrain.episode.imagefile.orientation import orientation
from tinytrain.episode.imagefile.stored import PIXEL_BYTES, Stored, broken, refuse_more, require, whole

MAGIC = b"RIFF"
KIND = b"WEBP"
# Two canvases of the decoder, the copy that it returns, and Pillow's image, of four bytes a pixel each. The
# decoder's other arrays are gone when the last two appear.
CANVAS_BYTES, COUNTED = 16, 4  # Pillow's image is counted by the caller
MAX_PIXELS = PIXEL_BYTES // CANVAS_BYTES
MAX_CODED = 32 * 10**6  # bytes of the bitstream
COPIES = 3  # of the bitstream
MAX_CHUNKS = 10_000
MAX_ABOUT = 2**20  # bytes of EXIF or XMP data, or of a profile
LOSSY, LOSSLESS, ALPHA, EXTENDED, FRAME = b"VP8 ", b"VP8L", b"ALPH", b"VP8X", b"ANMF"
HAS_ALPHA, HAS_FRAMES = 0x10, 0x02
FRAME_HEADER = 16
CUT_OFF = "is cut off"


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.episode.imagefile.read`."""
    file.seek(0)
    start = file.read(12)
    require("webp", "WebP", "11")
    stop = min(length, 8 + int.from_bytes(start[4:8], "little"))
    parts = _chunks(file, 12, stop)
    head = _read_part(file, parts, EXTENDED, 10)
    frame = _read_part(file, parts, FRAME, FRAME_HEADER)
    coded, size = _bitstreams(file, parts)
    canvas = _canvas(head) if head else size
    refuse_more(*canvas, MAX_PIXELS)
    fits = bool(head) and size == _frame_size(frame) if frame else canvas == size
    if not fits:
        raise broken("cannot be decoded (its sizes contradict each other)")
    pixels = canvas[0] * canvas[1]
    held = COPIES * sum(map(len, coded.values())) + _table_bytes(coded, size)
    nbytes = held + CANVAS_BYTES * pixels
    if nbytes > PIXEL_BYTES:
        refuse_more(*canvas, pixels * PIXEL_BYTES / nbytes)
    held += (CANVAS_BYTES - COUNTED) * pixels
    stream = whole(_webp(coded, canvas, frame))
    turn = orientation(_about(file, parts, b"EXIF"), _about(file, parts, b"XMP "))
    profile = _about(file, parts, b"ICCP")
    return Stored("WEBP", stream, *canvas, MAX_PIXELS, held, turn, True, profile=profile)


def _bitstreams(file: BinaryIO, parts: dict) -> tuple[dict[bytes, bytes], tuple[int, int]]:
    """The bitstreams of the first frame by kind, and its width and height."""
    if FRAME in parts:
        at, size = parts[FRAME]
        parts = _chunks(file, at + FRAME_HEADER, at + size)
    coded = {kind: _coded(file, *parts[kind]) for kind in (ALPHA, LOSSY, LOSSLESS) if kind in parts}
    if (LOSSY in coded) == (LOSSLESS in coded):
        raise broken("cannot be decoded (it has no pixels, or two kinds of them)")
    return coded, _size_lossy(coded[LOSSY]) if LOSSY in coded else vp8l.size(coded[LOSSLESS])


def _chunks(file: BinaryIO, at: int, stop: int) -> dict[bytes, tuple[int, int]]:
    """(first byte, bytes) of the first chunk of each kind between two places."""
    found: dict[bytes, tuple[int, int]] = {}
    for _ in range(MAX_CHUNKS):
        file.seek(at)
        header = file.read(8)
        if at + 8 > stop or len(header) < 8:
            return found
        size = int.from_bytes(header[4:], "little")
        if at + 8 + size > stop:
            raise broken(CUT_OFF)
        found.setdefault(header[:4], (at + 8, size))
        at += 8 + size + size % 2
    raise broken(f"has more than {MAX_CHUNKS:,} chunks")


def _about(file: BinaryIO, parts: dict, kind: bytes) -> bytes:
    """A chunk of metadata, b"" without one that is small enough to be read."""
    return _read_part(file, parts, kind, 0) if parts.get(kind, (0, 0))[1] <= MAX_ABOUT else b""


def _read_part(file: BinaryIO, parts: dict, kind: bytes, least: int) -> bytes:
    """The first chunk of that kind, or its first `least` bytes if that is not 0; b"" without one."""
    if kind not in parts:
        return b""
    at, size = parts[kind]
    if size < least:
        raise broken(CUT_OFF)
    file.seek(at)
    return file.read(least or size)


def _coded(file: BinaryIO, at: int, size: int) -> bytes:
    if size > MAX_CODED:
        raise broken(f"cannot be decoded ({size:,} bytes of pixels, at most {MAX_CODED:,} are read)")
    file.seek(at)
    return file.read(size)


def _canvas(head: bytes) -> tuple[int, int]:
    return int.from_bytes(head[4:7], "little") + 1, int.from_bytes(head[7:10], "little") + 1


def _frame_size(frame: bytes) -> tuple[int, int]:
    return int.from_bytes(frame[6:9], "little") + 1, int.from_bytes(frame[9:12], "little") + 1


def _size_lossy(bits: bytes) -> tuple[int, int]:
    if len(bits) < 10 or bits[3:6] != b"\x9d\x01\x2a":
        raise broken("cannot be decoded (its header is damaged)")
    width, height = struct.unpack_from("<HH", bits, 6)
    return width & 0x3FFF, height & 0x3FFF


def _table_bytes(coded: dict[bytes, bytes], size: tuple[int, int]) -> int:
    """What the decoder takes for the tables of lossless pixels, or of a lossless transparency."""
    if LOSSLESS in coded:
        return vp8l.table_bytes(coded[LOSSLESS], 5, *size)
    alpha = coded.get(ALPHA, b"")
    return vp8l.table_bytes(alpha, 1, *size) if alpha and alpha[0] & 3 == 1 else 0


def _webp(coded: dict[bytes, bytes], canvas: tuple[int, int], frame: bytes) -> list[bytes]:
    """The pieces of a file with these bitstreams alone; `frame` is the header of an animated one or empty."""
    pieces = [piece for kind, bits in coded.items() if kind != ALPHA or LOSSY in coded
              for piece in _chunk(kind, bits)]  # fmt: skip
    flags = HAS_ALPHA * (ALPHA in coded or bool(frame)) | HAS_FRAMES * bool(frame)
    if frame:
        inner = sum(map(len, pieces))
        pieces = [FRAME, struct.pack("<I", FRAME_HEADER + inner), frame, *pieces]
        pieces = [*_chunk(b"ANIM", bytes(6)), *pieces]
    if flags:
        sides = b"".join((side - 1).to_bytes(3, "little") for side in canvas)
        pieces = [*_chunk(EXTENDED, bytes([flags, 0, 0, 0]) + sides), *pieces]
    total = 4 + sum(map(len, pieces))
    return [MAGIC + struct.pack("<I", total) + KIND, *pieces]


def _chunk(kind: bytes, data: bytes) -> list[bytes]:
    return [kind + struct.pack("<I", len(data)), data, bytes(len(data) % 2)]
