"""GIF, WebP, TIFF, AVIF and HEIC files that ask for as much memory or time as they can: table `HOSTILE`."""

import io
import struct

from hostileimages import HOLE, Sparse, encoded, exif, square, zeros
from PIL import Image


def flat(mode: str, limit: float, kind: str, **options) -> bytes:
    """A square image of one colour of `limit` million pixels."""
    side = square(limit)
    return encoded(Image.new(mode, (side, side)), kind, **options)


def gif(width: int, height: int, before=b"", body=b"\0", frame=None) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x81, 0, 0) + bytes(range(12))
    return (
        head + before + b"," + struct.pack("<HHHHBB", 0, 0, *(frame or (width, height)), 0, 2) + body + b";"
    )


def blocks(codes: list[int]) -> bytes:
    """Codes of three bits, the lowest bit first, as one block and the end of blocks."""
    data = sum(code << 3 * k for k, code in enumerate(codes)).to_bytes(len(codes) * 3 // 8 + 1, "little")
    return bytes([len(data)]) + data + b"\0"


def chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def riff(*chunks: bytes) -> bytes:
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def extended(width: int, height: int, flags: int) -> bytes:
    return chunk(
        b"VP8X", bytes([flags, 0, 0, 0]) + b"".join((s - 1).to_bytes(3, "little") for s in (width, height))
    )


class Bits:
    """Bits of a number, the lowest first."""

    def __init__(self):
        self.number, self.count, self.pieces = 0, 0, []

    def put(self, value: int, bits: int) -> "Bits":
        self.number |= value << self.count
        self.count += bits
        while self.count >= 32:
            self.pieces.append((self.number & 2**32 - 1).to_bytes(4, "little"))
            self.number >>= 32
            self.count -= 32
        return self

    def bytes(self) -> bytes:
        return b"".join(self.pieces) + self.number.to_bytes(8, "little")


def all_bytes(bits: Bits) -> None:
    """A prefix code in which the symbols 0 to 255 have 8 bits each, and others none."""
    bits.put(0, 1).put(8, 4)  # not simple; twelve lengths of lengths, up to that of 8
    for place in (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8):
        bits.put(place == 8, 3)
    bits.put(1, 1).put(3, 3).put(254, 8)  # 2 + 254 lengths follow, each of no bits


def one_symbol(bits: Bits) -> None:
    bits.put(1, 1).put(0, 1).put(0, 1).put(0, 1)


def many_sets(width: int, height: int, sets: int) -> bytes:
    """Lossless pixels in blocks of 4 x 4, each of which uses one of `sets` sets of prefix codes."""
    bits = Bits().put(0x2F, 8).put(width - 1, 14).put(height - 1, 14).put(0, 4)
    bits.put(0, 1).put(0, 1)  # no transforms, no cache of colours
    bits.put(1, 1).put(0, 3)  # a number for each block of 4 x 4
    bits.put(0, 1)
    for code in range(5):
        all_bytes(bits) if code < 2 else one_symbol(bits)
    backwards = [int(f"{i:08b}"[::-1], 2) for i in range(256)]
    for block in range(-(-width // 4) * -(-height // 4)):
        number = block % sets
        bits.put(backwards[number & 255], 8).put(backwards[number >> 8], 8)
    for _ in range(5 * sets):
        one_symbol(bits)
    return riff(chunk(b"VP8L", bits.bytes()))


def webp_animated(limit: float, frames: int) -> bytes:
    side = square(limit)
    image = encoded(Image.new("RGB", (side, side)), "WEBP", lossless=True, method=0)
    header = bytes(6) + 2 * (side - 1).to_bytes(3, "little") + bytes(4)
    frame = chunk(b"ANMF", header + image[12:])
    return riff(extended(side, side, 2), ANIMATION, *[frame] * frames)


def tiff(width: int, height: int, tags=(), body=b"", order="<") -> bytes:
    """A TIFF of grey pixels; `tags` (tag, type, count, value) replace or add to the usual ones."""
    usual = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    usual += [(277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, min(width * height, 2**32 - 1))]
    found = {tag[0]: tag for tag in [(273, 4, 1, 0), *usual, *tags]}
    if 322 in found:  # tiles and no strips
        found = {tag: found[tag] for tag in found if tag not in (273, 278, 279)}
    head = 8 + 2 + 12 * len(found) + 4
    if found.get(273, (1,))[-1] == 0:
        found[273] = (273, 4, 1, head)
    table = b"".join(struct.pack(order + "HHII", *tag) for _, tag in sorted(found.items()))
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return (magic + struct.pack(order + "IH", 8, len(found)) + table + bytes(4)).ljust(head, b"\0") + body


def tiff_deflated(side: int) -> bytes:
    body = zeros(side * side)
    return tiff(side, side, [(259, 3, 1, 8), (279, 4, 1, len(body))], body)


def box(kind: bytes, *parts: bytes) -> bytes:
    """A box of an AVIF or HEIC."""
    body = b"".join(parts)
    return struct.pack(">I", 8 + len(body)) + kind + body


def heic(image: Image.Image, **options) -> bytes:
    import pillow_heif

    file = io.BytesIO()
    pillow_heif.from_pillow(image).save(file, **options)
    return file.getvalue()


def claiming(data: bytes, width: int, height: int) -> bytes:
    """An AVIF or HEIC that declares another size."""
    at = data.index(b"ispe") + 8
    return data[:at] + struct.pack(">II", width, height) + data[at + 8 :]


def avif_extents(count: int) -> bytes:
    """`count` lists of 65,535 parts of one item, of which none takes a byte to describe."""
    item = box(b"infe", bytes([2, 0, 0, 0]), struct.pack(">HH", 1, 0), b"av01\0")
    places = struct.pack(">HH", 0, count) + struct.pack(">HHH", 1, 0, 65535) * count
    parts = (
        box(b"pitm", bytes(4), b"\0\1"),
        box(b"iinf", bytes(4), b"\0\1", item),
        box(b"iloc", bytes(4), places),
    )
    return FTYP + box(b"meta", bytes(4), *parts, box(b"iprp", box(b"ipco")))


FTYP = box(b"ftyp", b"avif", bytes(4))
GIF_TEXT = b"!\xfe" + (b"\xff" + b"a" * 255) * 60_000 + b"\0"
ANIMATION = chunk(b"ANIM", bytes(6))
LONG_TEXT = struct.pack("<HHII", 270, 2, HOLE, 8)

HOSTILE = {
    "gif of kind transparent": lambda: flat("P", 16.8, "GIF", transparency=0),
    "gif larger transparent": lambda: flat("P", 30, "GIF", transparency=0),
    "gif animated": lambda: flat("P", 16.8, "GIF", transparency=0, disposal=2) * 3,
    "gif screen": lambda: gif(65_000, 65_000, frame=(8, 8)),
    "gif frame": lambda: gif(8, 8, frame=(65_000, 65_000)),
    "gif clear codes": lambda: gif(4000, 4000, body=(b"\xff" + b"\x24\x49\x92" * 85) * 200_000 + b"\0"),
    "gif open end": lambda: Sparse(gif(4000, 4000, body=b"\xff")),
    "gif texts": lambda: gif(8, 8, before=GIF_TEXT * 3),
    "gif short texts": lambda: gif(8, 8, before=b"!\xfe" + b"\1a" * 5_000_000 + b"\0"),
    "webp of kind lossy": lambda: flat("RGB", 13, "WEBP", method=0),
    "webp of kind lossless": lambda: flat("RGB", 13, "WEBP", lossless=True, method=0),
    "webp sets": lambda: many_sets(1024, 1024, 65_536),
    "webp canvas": lambda: riff(extended(2**24, 2**24, 2), ANIMATION, chunk(b"ANMF", bytes(16))),
    "webp animated": lambda: webp_animated(13, 300),
    "webp chunks": lambda: riff(extended(8, 8, 0), *[chunk(b"NONE", b"")] * 1_000_000),
    "webp long": lambda: Sparse(
        b"RIFF" + struct.pack("<I", HOLE) + b"WEBPVP8X" + struct.pack("<I", HOLE - 100)
    ),
    "tiff of kind RGB": lambda: flat("RGB", 54, "TIFF"),
    "tiff of kind LZW": lambda: flat("RGB", 50, "TIFF", compression="tiff_lzw"),
    "tiff of kind JPEG": lambda: flat("RGB", 30, "TIFF", compression="jpeg"),
    "tiff one strip": lambda: tiff_deflated(6_900),
    "tiff huge": lambda: Sparse(tiff(10**6, 10**6)),
    "tiff tiles": lambda: Sparse(
        tiff(64, 64, [(322, 4, 1, 2**20), (323, 4, 1, 2**20), (324, 4, 1, 8), (325, 4, 1, 99)])
    ),
    "tiff tags": lambda: exif(25_000),
    "tiff directory": lambda: b"II*\0" + struct.pack("<IH", 8, 65_535) + LONG_TEXT * 65_535,
    "tiff texts": lambda: Sparse(tiff(64, 64, [(700, 1, HOLE - 4096, 200), (34675, 7, HOLE - 4096, 200)])),
    "tiff counts": lambda: Sparse(tiff(64, 64, [(273, 4, 2**26, 200), (279, 4, 2**26, 200)])),
    "tiff frames": lambda: b"II*\0" + struct.pack("<IHI", 8, 0, 8),
    "avif of kind 4:2:0": lambda: flat("RGB", 19.8, "AVIF", speed=10, subsampling="4:2:0"),
    "avif larger": lambda: flat("RGB", 23, "AVIF", speed=10),
    "avif claims": lambda: claiming(flat("RGB", 0.01, "AVIF", speed=10), 60_000, 60_000),
    "avif extents": lambda: avif_extents(2000),
    "avif boxes": lambda: FTYP + box(b"free") * 1_000_000,
    "avif long": lambda: Sparse(FTYP + struct.pack(">I", HOLE) + b"meta" + bytes(4)),
    "heic of kind flat": lambda: heic(Image.new("RGB", (4_900, 4_900)), chroma=420),
    "heic claims": lambda: claiming(heic(Image.new("RGB", (100, 100))), 60_000, 60_000),
    "heic claims less": lambda: claiming(heic(Image.new("RGB", (5_000, 5_000))), 64, 64),
}
