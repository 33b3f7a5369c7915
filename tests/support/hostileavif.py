"""AVIF files that ask for as much memory or time as their format can, as table `HOSTILE`."""

import struct

from hostileframes import flat
from hostileimages import HOLE, Sparse

from tinytrain.episode.imagefile.isobmff import box


def avif(limit: float, mode="RGB", **options) -> bytes:
    return flat(mode, limit, "AVIF", speed=10, **options)


def claiming(width: int, height: int) -> bytes:
    """A small image that declares another size."""
    data = avif(0.01)
    at = data.index(b"ispe") + 8
    return data[:at] + struct.pack(">II", width, height) + data[at + 8 :]


def pixels(data: bytes) -> bytes:
    """The coded image of a file."""
    return data[data.index(b"mdat") + 4 :]


def small_outside(limit: float) -> bytes:
    """A small image by its boxes whose pixels are those of a large one."""
    small, large = avif(0.01), pixels(avif(limit))
    at = small.index(b"iloc")
    place = small.index(b"mdat") + 4
    where = small.index(struct.pack(">I", place), at)
    return small[:where] + struct.pack(">II", place, len(large)) + small[where + 8 : place] + large


def many_frames(count: int) -> bytes:
    """An image whose data are the frame of a large one again and again."""
    data = avif(12)
    at, coded = data.index(b"mdat") + 4, pixels(data)
    where = data.index(struct.pack(">I", at), data.index(b"iloc"))
    return data[:where] + struct.pack(">II", at, len(coded) * count) + data[where + 8 :] + coded * (count - 1)


def with_meta(*boxes: bytes) -> bytes:
    return box(b"ftyp", b"avif", bytes(4), b"avifmif1") + box(b"meta", bytes(4), *boxes)


def empty_extents(count: int) -> bytes:
    """`count` lists of 65,535 parts of one item, of which none takes a byte to describe."""
    item = box(b"infe", bytes([2, 0, 0, 0]), struct.pack(">HH", 1, 0), b"av01\0")
    places = struct.pack(">HH", 0, count) + struct.pack(">HHH", 1, 0, 65535) * count
    return with_meta(
        box(b"pitm", bytes(4), b"\0\1"), box(b"iinf", bytes(4), b"\0\1", item),
        box(b"iloc", bytes(4), places), box(b"iprp", box(b"ipco")),
    )  # fmt: skip


def overlapping() -> bytes:
    """An item that is the same million bytes a thousand times."""
    item = box(b"infe", bytes([2, 0, 0, 0]), struct.pack(">HH", 1, 0), b"av01\0")
    extents = struct.pack(">II", 0, 10**6) * 1000
    places = struct.pack(">HHHHH", 0x4400, 1, 1, 0, 1000) + extents
    size = box(b"ispe", bytes(4), struct.pack(">II", 64, 64))
    links = box(b"ipma", bytes(4), struct.pack(">IHBB", 1, 1, 1, 1))
    return with_meta(
        box(b"pitm", bytes(4), b"\0\1"), box(b"iinf", bytes(4), b"\0\1", item),
        box(b"iloc", bytes(4), places), box(b"iprp", box(b"ipco", size), links),
    ) + bytes(10**6)  # fmt: skip


FTYP = box(b"ftyp", b"avif", bytes(4))
HOSTILE = {
    "avif of kind 4:2:0": lambda: avif(22, subsampling="4:2:0"),
    "avif of kind 4:4:4": lambda: avif(17.3, subsampling="4:4:4"),
    "avif of kind transparent": lambda: avif(14, "RGBA", subsampling="4:2:0"),
    "avif of kind grey": lambda: avif(24, "L"),
    "avif larger": lambda: avif(23, subsampling="4:2:0"),
    "avif claims": lambda: claiming(60_000, 60_000),
    "avif claims more": lambda: claiming(2**31, 2**31),
    "avif small outside": lambda: small_outside(25),
    "avif frames": lambda: many_frames(1000),
    "avif overlapping": overlapping,
    "avif extents": lambda: empty_extents(2000),
    "avif boxes": lambda: with_meta(*[box(b"free")] * 100_000),
    "avif outer boxes": lambda: FTYP + box(b"free") * 1_000_000,
    "avif long": lambda: Sparse(FTYP + struct.pack(">I", HOLE) + b"meta" + bytes(4)),
    "avif items": lambda: with_meta(
        box(b"pitm", bytes(4), b"\0\1"),
        box(b"iinf", bytes(4), b"\xff\xff", *[box(b"infe", bytes([2, 0, 0, 0]), b"\0\1\0\0av01\0")] * 40_000),
        box(b"iloc", bytes(4), b"\x44\0\0\0"), box(b"iprp", box(b"ipco")),
    ),
}  # fmt: skip
