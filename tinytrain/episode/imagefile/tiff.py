"""TIFF: passes on the pixels of the first image, laid out anew, and the tags that they need.

Kinds of pixels and of compression that are rare or dear to decode are refused.
"""

import struct
from dataclasses import dataclass
from typing import BinaryIO

from tinytrain.base.errors import InputError
from tinytrain.episode.imagefile.stored import (
    MAX_PROFILE,
    PIXEL_BYTES,
    Stored,
    broken,
    pieced,
    refuse_more,
    whole,
)

ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
LARGE = (b"II+\0", b"MM\0+")
MAX_PIXELS = PIXEL_BYTES // 4
MAX_PIECES = 2**16  # strips or tiles
WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER = 256, 257, 258, 259, 262, 266
OFFSETS, ORIENTATION, SAMPLES, ROWS, COUNTS, PLANAR = 273, 274, 277, 278, 279, 284
PREDICTOR, PALETTE, TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_COUNTS = 317, 320, 322, 323, 324, 325
EXTRA, FORMAT, ICC, DNG = 338, 339, 34675, 50706
LETTERS = {1: "B", 3: "H", 4: "I"}
SHORT, LONG = 3, 4
PLAIN, INDEXED = 1, 3
COMPRESSIONS = {PLAIN: "none", 5: "LZW", 8: "Deflate", 32946: "Deflate", 32773: "PackBits"}
OTHERS = {2: "fax", 3: "fax", 4: "fax", 6: "JPEG", 7: "JPEG", 34712: "JPEG 2000", 50000: "Zstandard"}
# Coded bytes may exceed the pixels' by that: LZW takes 12 bits for 8, PackBits one byte more for 128.
MAX_GROWTH, MAX_MORE = 1.6, 1024
# Photometric interpretation -> (bits per sample, samples, meaning of a sample beyond the colours).
GREYS = [(bits, 1, None) for bits in (1, 2, 4, 8)]
KINDS = {
    0: GREYS,
    1: [*GREYS, (16, 1, None), (8, 2, 0), (8, 2, 2)],
    2: [(bits, 3, None) for bits in (8, 16)] + [(b, 4, extra) for b in (8, 16) for extra in (None, 0, 1, 2)],
    INDEXED: GREYS,
    5: [(8, 4, None), (16, 4, None)],
}
REMEDY = "save it as PNG, or as TIFF with 8 bits per channel and LZW compression"


def read(file: BinaryIO, length: int) -> Stored:
    """See `tinytrain.episode.imagefile.read`."""
    file.seek(0)
    magic = file.read(4)
    if magic in LARGE:
        raise _refused("is a BigTIFF")
    if magic not in ORDERS:
        raise broken("cannot be decoded (its header is damaged)")
    tags = _Tags(file, ORDERS[magic], length)
    layout = _layout(tags)
    refuse_more(layout.width, layout.height, MAX_PIXELS)
    if layout.pieces > MAX_PIECES:
        raise _refused(f"has {layout.pieces:,} strips or tiles, the limit is {MAX_PIECES:,}")
    pixels, padded = layout.width * layout.height, layout.piece_bytes * layout.pieces
    if padded > PIXEL_BYTES:
        refuse_more(layout.width, layout.height, pixels * PIXEL_BYTES / padded)
    pieces = _pieces(tags, layout, length)
    held = 0
    if layout.compression != PLAIN:
        # The coded bytes, growing in steps, and one piece decoded.
        held = sum(size for _, size in pieces) * 5 // 4 + layout.piece_bytes
        if held > PIXEL_BYTES:
            refuse_more(layout.width, layout.height, pixels * PIXEL_BYTES / held)
    stream = pieced(_head(tags, layout, [size for _, size in pieces]), file, pieces)
    if layout.compression != PLAIN:
        stream = whole(iter(lambda: stream.read(2**16), b""))
    turn = tags.number(ORIENTATION, 1)
    profile = tags.content(ICC, MAX_PROFILE)
    return Stored("TIFF", stream, layout.width, layout.height, MAX_PIXELS, held, turn, True, profile=profile)


@dataclass(frozen=True)
class _Layout:
    """Pixels of one kind in strips or tiles of `across` x `down` pixels."""

    width: int
    height: int
    across: int
    down: int
    bits: int
    samples: int
    compression: int
    tiled: bool

    @property
    def pieces(self) -> int:
        return -(-self.width // self.across) * -(-self.height // self.down)

    @property
    def piece_bytes(self) -> int:
        return self.row_bytes * self.down

    @property
    def row_bytes(self) -> int:
        return -(-self.across * self.bits * self.samples // 8)

    def plain_bytes(self) -> list[int]:
        """Bytes of each strip or tile without compression; the last strip may have fewer rows."""
        if self.tiled:
            return [self.piece_bytes] * self.pieces
        tops = range(0, self.height, self.down)
        return [self.row_bytes * min(self.down, self.height - top) for top in tops]


class _Tags:
    """The first directory of tags: the first of each kind."""

    def __init__(self, file: BinaryIO, order: str, length: int):
        self.file, self.order, self.length = file, order, length
        (start,) = self._unpacked("I", 4, 1)
        (count,) = self._unpacked("H", start, 1)
        self.entries: dict[int, tuple[int, int, int]] = {}
        for at in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind = self._unpacked("H", at, 2)
            (values,) = self._unpacked("I", at + 4, 1)
            self.entries.setdefault(tag, (kind, values, at + 8))
            if at + 12 > length:
                raise broken("is cut off")

    def _unpacked(self, letter: str, at: int, count: int) -> tuple[int, ...]:
        self.file.seek(at)
        size = struct.calcsize(letter) * count
        if len(data := self.file.read(size)) < size:
            raise broken("is cut off")
        return struct.unpack(f"{self.order}{count}{letter}", data)

    def numbers(self, tag: int, most: int) -> tuple[int, ...]:
        """The values of a tag, () without one. Raises InputError ``picture-broken`` for more than `most`."""
        kind, count, at = self.entries.get(tag, (SHORT, 0, 0))
        if kind not in LETTERS or count > most:
            raise broken(f"cannot be decoded (tag {tag} has {count:,} values of type {kind})")
        letter = LETTERS[kind]
        if struct.calcsize(letter) * count > 4:
            (at,) = self._unpacked("I", at, 1)
        return self._unpacked(letter, at, count)

    def content(self, tag: int, most: int) -> bytes:
        """The bytes of a tag that has more than four, b"" without one or for more than `most`."""
        _, count, at = self.entries.get(tag, (0, 0, 0))
        if not 4 < count <= most:
            return b""
        self.file.seek(*self._unpacked("I", at, 1))
        return self.file.read(count)

    def number(self, tag: int, default: int) -> int:
        return next(iter(self.numbers(tag, 1)), default)

    def one_of_all(self, tag: int, default: int) -> int:
        """The value of a tag that has one per sample, all of them the same."""
        values = set(self.numbers(tag, 8)) or {default}
        if len(values) > 1:
            raise _refused(f"has channels that differ (tag {tag})")
        return values.pop()


def _refused(what: str) -> InputError:
    return InputError("picture-broken", f"{what}, which is not read; {REMEDY}")


def _layout(tags: _Tags) -> _Layout:
    """Raises InputError ``picture-broken`` for a kind that is not read."""
    width, height = (tags.number(tag, 0) for tag in (WIDTH, HEIGHT))
    compression = tags.number(COMPRESSION, PLAIN)
    if DNG in tags.entries:
        raise broken("is a raw image of a camera; export it as JPEG")
    if compression not in COMPRESSIONS:
        raise _refused(f"is a TIFF with {OTHERS.get(compression, 'unknown')} compression ({compression})")
    photometric, bits = tags.number(PHOTOMETRIC, 0), tags.one_of_all(BITS, 1)
    samples = tags.number(SAMPLES, 1)
    extra = next(iter(tags.numbers(EXTRA, 1)), None)
    if (bits, samples, extra) not in KINDS.get(photometric, ()) or tags.one_of_all(FORMAT, 1) != 1:
        raise _refused(f"is a TIFF of {samples} channels of {bits} bits, colours of kind {photometric}")
    if (samples > 1 and tags.number(PLANAR, 1) != 1) or tags.number(FILL_ORDER, 1) != 1:
        raise _refused("is a TIFF with channels or bits in another order")
    if tags.number(PREDICTOR, 1) not in (1, 2):
        raise _refused(f"is a TIFF with predictor {tags.number(PREDICTOR, 1)}")
    tiled = TILE_OFFSETS in tags.entries
    across = tags.number(TILE_WIDTH, 0) if tiled else width
    down = tags.number(TILE_HEIGHT, 0) if tiled else min(tags.number(ROWS, height), height)
    if width and height and (across < 1 or down < 1 or (tiled and (across % 16 or down % 16))):
        raise broken(f"cannot be decoded (strips or tiles of {across} x {down} pixels)")
    return _Layout(width, height, across, down, bits, samples, compression, tiled)


def _pieces(tags: _Tags, layout: _Layout, length: int) -> list[tuple[int, int]]:
    """(first byte, bytes) of every strip or tile, of which no more bytes than its pixels can take."""
    starts = tags.numbers(TILE_OFFSETS if layout.tiled else OFFSETS, MAX_PIECES)
    sizes = tags.numbers(TILE_COUNTS if layout.tiled else COUNTS, MAX_PIECES)
    if layout.pieces == 1 and len(starts) == 1 and not sizes:  # some writers leave it out
        sizes = (length - starts[0],)
    if not len(starts) == len(sizes) == layout.pieces:
        raise broken(f"cannot be decoded ({len(starts):,} of {layout.pieces:,} strips or tiles)")
    if layout.compression == PLAIN:
        needed = layout.plain_bytes()
    else:
        needed = [int(layout.piece_bytes * MAX_GROWTH) + MAX_MORE] * layout.pieces
    pieces = [(at, min(size, most)) for at, size, most in zip(starts, sizes, needed, strict=True)]
    short = layout.compression == PLAIN and any(size < most for size, most in zip(sizes, needed, strict=True))
    if short or any(at + size > length for at, size in pieces):
        raise broken("is cut off")
    return pieces


def _head(tags: _Tags, layout: _Layout, sizes: list[int]) -> bytes:
    """Header and directory of a file in which the strips or tiles of these sizes follow."""
    depth = [layout.bits] * layout.samples
    values = {WIDTH: [layout.width], HEIGHT: [layout.height], BITS: depth, COMPRESSION: [layout.compression]}
    values |= {PHOTOMETRIC: [tags.number(PHOTOMETRIC, 0)], SAMPLES: [layout.samples], PLANAR: [1]}
    offsets, counts = OFFSETS, COUNTS
    if layout.tiled:
        offsets, counts = TILE_OFFSETS, TILE_COUNTS
        values |= {TILE_WIDTH: [layout.across], TILE_HEIGHT: [layout.down]}
    else:
        values[ROWS] = [layout.down]
    values |= {offsets: [0] * len(sizes), counts: sizes}
    for tag, most in ((PREDICTOR, 1), (EXTRA, 1), (PALETTE, 3 * 256)):
        if found := tags.numbers(tag, most):
            values[tag] = list(found)
    if values[PHOTOMETRIC] == [INDEXED] and len(values.get(PALETTE, ())) != 3 << layout.bits:
        raise broken("cannot be decoded (its palette is damaged)")
    start = len(_directory(tags.order, values))
    places = []
    for size in sizes:
        places.append(start)
        start += size
    return _directory(tags.order, values | {offsets: places})


def _directory(order: str, values: dict[int, list[int]]) -> bytes:
    """A TIFF header and a directory of these tags; what does not fit into an entry follows."""
    behind = 8 + 2 + 12 * len(values) + 4
    entries, more = b"", b""
    for tag in sorted(values):
        kind = SHORT if tag in (BITS, PALETTE) else LONG
        data = struct.pack(f"{order}{len(values[tag])}{LETTERS[kind]}", *values[tag])
        if len(data) > 4:
            place = struct.pack(order + "I", behind + len(more))
            more += data
        else:
            place = data.ljust(4, b"\0")
        entries += struct.pack(order + "HHI", tag, kind, len(values[tag])) + place
    magic = next(magic for magic, name in ORDERS.items() if name == order)
    return magic + struct.pack(order + "IH", 8, len(values)) + entries + bytes(4) + more
