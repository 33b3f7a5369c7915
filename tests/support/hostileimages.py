"""Image files that ask for as much memory or time as their format can, as table `HOSTILE`.

A file of a few hundred bytes stands for a large one: coded data that ends early decodes to the end all the
same (JPEG), compresses a thousandfold (PNG), or is a hole in a sparse file.
"""

import struct
import zlib
from pathlib import Path

import numpy as np
from imagefiles import MAGIC, chunk, encoded, header
from PIL import Image
from profiles import profile, table

HOLE = 300 * 10**6  # bytes of a sparse file that take no disk


def zeros(count: int) -> bytes:
    """`count` zero bytes, compressed: one block many times."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    rest = packer.compress(bytes(count % 2**20)) + packer.flush()
    return b"\x78\x9c" + block * (count // 2**20) + rest + struct.pack(">HH", count % 65521, 1)


BANDS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def png(width, height, depth=8, colour_type=2, before=b"", after=b"", interlaced=0) -> bytes:
    """A PNG of zeros with the chunks `before` and `after` its pixels."""
    rows = height * (1 + (width * BANDS[colour_type] * depth + 7) // 8)
    pixels = zeros(rows + 16 * (width + height) * interlaced)  # filter bytes of seven passes
    palette = chunk(b"PLTE", bytes(range(48))) if colour_type == 3 else b""
    head = MAGIC + header(width, height, depth, colour_type, interlaced) + palette
    return head + before + chunk(b"IDAT", pixels) + after + chunk(b"IEND", b"")


def largest() -> bytes:
    """An honest PNG just under the limit of pixels."""
    return png(BIG, BIG)


def square(limit: float) -> int:
    """Side of a square of `limit` million pixels."""
    return int((limit * 1e6) ** 0.5)


def jpeg(width: int, height: int, mode="RGB", before=b"", scans=0, **options) -> bytes:
    """A JPEG of the encoder's first block and nothing more; `scans` more copies of its last scan."""
    data = bytearray(encoded(Image.new(mode, (16, 16)), "JPEG", **options))
    at = next(i for marker in (b"\xff\xc0", b"\xff\xc2") if (i := data.find(marker)) > 0) + 5
    data[at : at + 4] = struct.pack(">HH", height, width)
    last = bytes(data[data.rindex(b"\xff\xda") : -2])
    return bytes(data[:2]) + before + bytes(data[2:-2]) + last * scans + b"\xff\xd9"


def profile_in(parts: list[bytes]) -> bytes:
    """The segments of a JPEG with these parts of a colour profile."""
    heads = (b"ICC_PROFILE\0" + bytes([k % 256, min(len(parts), 255)]) for k in range(1, len(parts) + 1))
    return b"".join(segment(0xE2, head + part) for head, part in zip(heads, parts, strict=True))


def large_profile(channels=3) -> bytes:
    """A colour profile just under the limit of its bytes."""
    space, points = (b"RGB ", 55) if channels == 3 else (b"CMYK", 20)
    return profile({b"A2B0": table(points, channels)}, space)


def split(data: bytes) -> list[bytes]:
    return [data[at : at + 65_000] for at in range(0, len(data), 65_000)]


def separate_scans(width: int, height: int) -> bytes:
    """A baseline JPEG whose scans hold one component each: its decoder must keep every coefficient."""
    data = jpeg(width, height)
    at = data.index(b"\xff\xda")
    scans = b"".join(b"\xff\xda\x00\x08\x01" + bytes([i, 0x11 * (i > 1), 0, 63, 0, 0]) for i in (1, 2, 3))
    return data[:at] + scans + b"\xff\xd9"


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def exif(entries: int) -> bytes:
    """A TIFF of tags that all claim the same bytes, as many as there are."""
    table = b"".join(struct.pack("<HHII", 0x9C00 + i, 7, 60_000, 8) for i in range(entries))
    return (b"II*\0" + struct.pack("<IH", 8, entries) + table + bytes(4)).ljust(65_000, b"\0")


def bmp(width: int, height: int, bits: int, compression=0, body=b"") -> bytes:
    palette = bytes(np.repeat(np.arange(256, dtype=np.uint8)[::-1], 4)) if bits == 8 else b""
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, *[0] * 5)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54 + len(palette)) + head + palette + body


def text(expanded: int) -> bytes:
    """A compressed text of `expanded` bytes, the first of which makes every letter take four."""
    return chunk(b"iTXt", b"k\0\1\0\0\0" + zlib.compress("\U0001f600".encode() + b"a" * expanded, 9))


def texts(kind: bytes, start: bytes, byte: bytes, count: int) -> bytes:
    """A PNG of `count` compressed texts, each of 1 MiB of one byte."""
    return png(8, 8, before=chunk(kind, start + zlib.compress(byte * 2**20, 9)) * count)


def palettes() -> bytes:
    """As many palettes as a PNG can have chunks, and pixels just under the limit."""
    side = square(PNG_KINDS[8, 3, 0])
    return png(side, side, 8, 3, before=chunk(b"PLTE", bytes(768)) * 99_000)


class Sparse(bytes):
    """A file that goes on with a hole of `HOLE` bytes."""


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    if isinstance(data, Sparse):
        with open(path, "r+b") as file:
            file.truncate(len(data) + HOLE)


def open_ended_png() -> bytes:
    """One IDAT chunk that goes on for the length of the hole after its last pixel."""
    rows = zlib.compress(bytes(64 * 193))
    return Sparse(MAGIC + header(64, 64, 8, 2) + struct.pack(">I", HOLE) + b"IDAT" + rows)


def long_chunk(before: bool) -> bytes:
    """A chunk of no known kind as long as the hole, before the pixels or after them."""
    whole = png(64, 64)
    at = whole.index(b"IDAT") - 4 if before else whole.index(b"IEND") - 4
    return Sparse(whole[:at] + struct.pack(">I", HOLE - 100) + b"prVt")


BIG = square(60.5)


def animated() -> bytes:
    control = struct.pack(">5IHHBB", 0, BIG, BIG, 0, 0, 1, 1, 2, 1)
    return png(BIG, BIG, before=chunk(b"acTL", struct.pack(">II", 9, 0)) + chunk(b"fcTL", control))


# Bits per channel, colour type and interlacing: just under the limit of the kind, in millions of pixels.
PNG_KINDS = {
    (1, 0, 0): 60.5, (8, 0, 0): 60.5, (16, 0, 0): 30.2, (8, 2, 1): 60.5, (16, 2, 0): 60.5, (8, 3, 0): 48.5,
    (8, 4, 0): 20, (16, 4, 0): 30.2, (16, 6, 1): 30.2,
}  # fmt: skip
OPAQUE = bytes(range(48))


def png_of_kind(depth: int, colour_type: int, interlaced: int) -> bytes:
    side = square(PNG_KINDS[depth, colour_type, interlaced])
    return png(side, side, depth, colour_type, interlaced=interlaced)


# Name -> what makes the file.
HOSTILE = {
    **{f"png of kind {kind}": lambda kind=kind: png_of_kind(*kind) for kind in PNG_KINDS},
    "png row": lambda: png(64_000_000, 1),
    "png column": lambda: png(1, 64_000_000),
    "png wide": lambda: png(65_000, 900),
    "png wide 16-bit grey": lambda: png(65_000, 450, 16, 0),
    "png transparent palette": lambda: png(square(18.5), square(18.5), 8, 3, chunk(b"tRNS", OPAQUE)),
    "png transparent colour": lambda: png(square(20), square(20), 8, 2, chunk(b"tRNS", bytes(6))),
    "png texts": lambda: png(8, 8, before=text(2**20 - 8) * 63),
    "png exif texts": lambda: texts(b"zTXt", b"Raw profile type exif\0\0", b"\n", 500),
    "png xmp texts": lambda: texts(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0", b" ", 2000),
    "png palettes": palettes,
    "png texts behind": lambda: png(8, 8, after=text(2**20 - 8) * 63),
    "png profiles": lambda: png(8, 8, before=chunk(b"iCCP", b"x\0\0" + zeros(2**28)) * 2),
    "png profile": lambda: png(BIG, BIG, before=chunk(b"iCCP", b"x\0\0" + zlib.compress(large_profile()))),
    "png exif": lambda: png(8, 8, before=chunk(b"eXIf", exif(5000))),
    "png empty chunks": lambda: png(8, 8, before=chunk(b"IDAT", b"") * 500_000),
    "png open end": open_ended_png,
    "png long chunk before": lambda: long_chunk(True),
    "png long chunk behind": lambda: long_chunk(False),
    "png animated": animated,
    "jpeg baseline": lambda: jpeg(11_300, 11_300),
    "jpeg wide": lambda: jpeg(65_000, 900),
    "jpeg progressive": lambda: jpeg(8_300, 8_300, progressive=True),
    "jpeg progressive wide": lambda: jpeg(65_000, 900, progressive=True),
    "jpeg larger progressive full colour": lambda: jpeg(7_900, 7_900, progressive=True, subsampling=0),
    "jpeg separate scans": lambda: separate_scans(8_300, 8_300),
    "jpeg scans": lambda: jpeg(6_000, 6_000, progressive=True, scans=3_000),
    "jpeg exif": lambda: jpeg(64, 64, before=segment(0xE1, b"Exif\0\0" + exif(5000))),
    "jpeg multi-image": lambda: jpeg(64, 64, before=segment(0xE2, b"MPF\0" + exif(4000))),
    "jpeg profile": lambda: jpeg(11_300, 11_300, before=profile_in(split(large_profile()))),
    "jpeg profile CMYK": lambda: jpeg(5_450, 5_450, "CMYK", before=profile_in(split(large_profile(4)))),
    "jpeg profile parts": lambda: jpeg(64, 64, before=profile_in([bytes(65_000)] * 4000)),
    "jpeg segments": lambda: jpeg(64, 64, before=segment(0xFE, b"") * 1_000_000),
    "jpeg tables": lambda: jpeg(64, 64, before=segment(0xDB, b"\0" + b"\1" * 64) * 50_000),
    "jpeg exif parts": lambda: jpeg(64, 64, before=segment(0xE1, b"Exif\0\0" + bytes(60_000)) * 500),
    "jpeg junk everywhere": lambda: jpeg(64, 64, before=(segment(0xFE, b"") + bytes(65_000)) * 1000),
    "jpeg junk": lambda: jpeg(64, 64, before=segment(0xFE, b"") + bytes(10**7)),
    "bmp 24 bits": lambda: Sparse(bmp(square(54), square(54), 24)),
    "bmp row": lambda: Sparse(bmp(60_000_000, 1, 24)),
    "bmp long header": lambda: Sparse(b"BM" + bytes(12) + struct.pack("<I", HOLE)),
    "bmp runs": lambda: bmp(1400, 1400, 8, 1, b"\1\1" * 3_000_000),
    "pnm ppm comment": lambda: b"P6\n#" + b"c" * 60_000_000 + b"\n8 8\n255\n" + bytes(192),
    "pnm ppm raw": lambda: Sparse(b"P6 %d %d 255\n" % (square(54), square(54))),
    "pnm ppm 16 bits": lambda: Sparse(b"P6 %d %d 65535\n" % (square(34), square(34))),
    "pnm ppm plain": lambda: b"P3 1600 1600 255\n" + b"0 " * 7_900_000,
    "pnm pgm plain of comments": lambda: b"P2 2000 2000 255\n" + b"#\n" * 4_000_000,
}
