"""GIF, WebP and TIFF files that ask for as much memory or time as their format can, as table `HOSTILE`."""

import struct
import zlib

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


def small_images(side: int) -> bytes:
    """Lossless pixels with a predictor for every block of 4 x 4."""
    bits = Bits().put(0x2F, 8).put(side - 1, 14).put(side - 1, 14).put(0, 4)
    bits.put(1, 1).put(0, 2).put(0, 3).put(0, 1)
    for _ in range(5):
        one_symbol(bits)
    bits.put(0, 1).put(0, 1).put(0, 1)
    for _ in range(5):
        one_symbol(bits)
    return riff(chunk(b"VP8L", bits.bytes()))


def bitstream(data: bytes) -> bytes:
    """The chunks of a still WebP after its header."""
    return data[12:]


def webp_animated(limit: float, frames: int) -> bytes:
    side = square(limit)
    image = encoded(Image.new("RGB", (side, side)), "WEBP", lossless=True, method=0)
    header = bytes(6) + 2 * (side - 1).to_bytes(3, "little") + bytes(4)
    frame = chunk(b"ANMF", header + bitstream(image))
    return riff(extended(side, side, 2), ANIMATION, *[frame] * frames)


def tiff(width: int, height: int, tags=(), body=b"", order="<") -> bytes:
    """A TIFF of grey pixels; `tags` (tag, type, count, value) replace or add to the usual ones."""
    usual = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    usual += [(277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, min(width * height, 2**32 - 1))]
    found = {tag[0]: tag for tag in [(273, 4, 1, 0), *usual, *tags]}
    head = 8 + 2 + 12 * len(found) + 4
    if found[273][3] == 0:
        found[273] = (273, 4, 1, head)
    table = b"".join(struct.pack(order + "HHII", *tag) for _, tag in sorted(found.items()))
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return (magic + struct.pack(order + "IH", 8, len(found)) + table + bytes(4)).ljust(head, b"\0") + body


def tiff_deflated(side: int) -> bytes:
    body = zeros(side * side)
    return tiff(side, side, [(259, 3, 1, 8), (279, 4, 1, len(body))], body)


def tiff_strips(rows: int) -> bytes:
    """As many strips of one row as there may be, all of the same bytes."""
    strip = zlib.compress(bytes(900))
    start = 8 + 2 + 12 * 9 + 4
    offsets = struct.pack("<I", start) * rows
    counts = struct.pack("<I", len(strip)) * rows
    places = [(273, 4, rows, start + len(strip)), (279, 4, rows, start + len(strip) + len(offsets))]
    return tiff(900, rows, [(259, 3, 1, 8), (278, 4, 1, 1), *places], strip + offsets + counts)


def tiff_overlapping(strips: int, size: int) -> bytes:
    """Strips that all claim the same bytes, more than the file has in all."""
    start = 8 + 2 + 12 * 9 + 4
    table = struct.pack("<I", start + 8 * strips) * strips + struct.pack("<I", size) * strips
    places = [(273, 4, strips, start), (279, 4, strips, start + 4 * strips)]
    return tiff(7000, strips * 120, [(259, 3, 1, 5), (278, 4, 1, 120), *places], table + bytes(size))


def tiff_of(mode: str, limit: float, compression: str | None) -> bytes:
    return flat(mode, limit, "TIFF", compression=compression)


GIF_TEXT = b"!\xfe" + (b"\xff" + b"a" * 255) * 60_000 + b"\0"
# Codes of three bits: clear, 0, 0, and again; then the end.
SMALL_FRAME = [4, 0, 0] * 32 + [5]
ANIMATION = chunk(b"ANIM", bytes(6))
LONG_RIFF = b"RIFF" + struct.pack("<I", HOLE) + b"WEBP"
HUGE_TILES = [(322, 4, 1, 2**20), (323, 4, 1, 2**20)]
LONG_TEXT = struct.pack("<HHII", 270, 2, HOLE, 8)

HOSTILE = {
    "gif of kind P": lambda: flat("P", 48, "GIF"),
    "gif of kind transparent": lambda: flat("P", 18.5, "GIF", transparency=0),
    "gif larger transparent": lambda: flat("P", 30, "GIF", transparency=0),
    "gif animated": lambda: flat("P", 18.5, "GIF", transparency=0, disposal=2) * 3,
    "gif screen": lambda: gif(65_000, 65_000, frame=(8, 8)),
    "gif frame": lambda: gif(8, 8, frame=(65_000, 65_000)),
    "gif small frame": lambda: gif(6_900, 6_900, body=blocks(SMALL_FRAME), frame=(8, 8)),
    "gif clear codes": lambda: gif(4000, 4000, body=(b"\xff" + b"\x24\x49\x92" * 85) * 200_000 + b"\0"),
    "gif open end": lambda: Sparse(gif(4000, 4000, body=b"\xff")),
    "gif texts": lambda: gif(8, 8, before=GIF_TEXT * 3),
    "gif short texts": lambda: gif(8, 8, before=b"!\xfe" + b"\1a" * 5_000_000 + b"\0"),
    "gif empty texts": lambda: gif(8, 8, before=b"!\xfe\0" * 3_000_000),
    "webp of kind lossy": lambda: flat("RGB", 15, "WEBP", method=0),
    "webp of kind alpha": lambda: flat("RGBA", 12, "WEBP", method=0),
    "webp of kind lossless": lambda: flat("RGB", 15, "WEBP", lossless=True, method=0),
    "webp wide": lambda: encoded(Image.new("RGB", (16_383, 700)), "WEBP", method=0),
    "webp sets": lambda: many_sets(1024, 1024, 65_536),
    "webp sets of small image": lambda: many_sets(600, 600, 15_000),
    "webp fewer sets": lambda: many_sets(2000, 2000, 6_000),
    "webp small images": lambda: small_images(3_400),
    "webp smaller images": lambda: small_images(1_900),
    "webp canvas": lambda: riff(extended(2**24, 2**24, 2), ANIMATION, chunk(b"ANMF", bytes(16))),
    "webp animated": lambda: webp_animated(15, 300),
    "webp chunks": lambda: riff(extended(8, 8, 0), *[chunk(b"NONE", b"")] * 1_000_000),
    "webp profile": lambda: riff(extended(8, 8, 0x20), chunk(b"ICCP", bytes(50_000_000))),
    "webp exif": lambda: riff(
        extended(64, 64, 8), bitstream(flat("RGB", 4096e-6, "WEBP")), chunk(b"EXIF", exif(5000))
    ),
    "webp long": lambda: Sparse(LONG_RIFF + b"VP8 " + struct.pack("<I", HOLE - 100)
                                + bitstream(flat("RGB", 0.01, "WEBP"))[8:]),
    "webp long header": lambda: Sparse(LONG_RIFF + b"VP8X" + struct.pack("<I", HOLE - 100)),
    **{
        f"tiff of kind {mode} {compression}": lambda mode=mode, limit=limit, compression=compression: tiff_of(
            mode, limit, compression
        )
        for mode, compression, limit in (
            ("1", None, 60), ("L", None, 60), ("RGB", None, 60), ("RGBA", None, 30), ("CMYK", None, 60),
            ("I;16", None, 30), ("P", "tiff_lzw", 48), ("L", "tiff_lzw", 60), ("RGB", "tiff_lzw", 58),
            ("RGB", "tiff_adobe_deflate", 58), ("RGBA", "packbits", 29),
        )
    },
    "tiff one strip": lambda: tiff_deflated(6_900),
    "tiff larger strip": lambda: tiff_deflated(7_800),
    "tiff huge": lambda: Sparse(tiff(10**6, 10**6)),
    "tiff wide": lambda: Sparse(tiff(65_000, 900)),
    "tiff strips": lambda: tiff_strips(65_000),
    "tiff more strips": lambda: tiff_strips(66_000),
    "tiff overlapping strips": lambda: tiff_overlapping(60, 1_300_000),
    "tiff tiles": lambda: Sparse(tiff(64, 64, [*HUGE_TILES, (324, 4, 1, 8), (325, 4, 1, 99)])),
    "tiff tags": lambda: exif(25_000),
    "tiff directory": lambda: b"II*\0" + struct.pack("<IH", 8, 65_535) + LONG_TEXT * 65_535,
    "tiff texts": lambda: Sparse(tiff(64, 64, [(700, 1, HOLE - 4096, 200), (34675, 7, HOLE - 4096, 200)])),
    "tiff counts": lambda: Sparse(tiff(64, 64, [(273, 4, 2**26, 200), (279, 4, 2**26, 200)])),
    "tiff frames": lambda: b"II*\0" + struct.pack("<IHI", 8, 0, 8),
    "tiff bits": lambda: Sparse(tiff(64, 64, [(258, 3, 2**26, 200), (277, 3, 1, 65_535)])),
    "tiff jpeg": lambda: tiff(6_000, 6_000, [(259, 3, 1, 7)], bytes(100)),
    "tiff large": lambda: Sparse(b"II+\0" + struct.pack("<HHQ", 8, 0, 16) + struct.pack("<Q", 2**40)),
}  # fmt: skip
