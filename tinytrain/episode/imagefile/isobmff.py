"""Boxes of AVIF and HEIC files: the items of a file, their properties, and a new file of few of them."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from tinytrain.episode.imagefile.stored import broken

MAX_META = 2**20  # bytes of all that describes the items
MAX_BOXES = 1000
MAX_ITEMS = 4096
MAX_EXTENTS = 2**14  # of all items: an extent may take no byte of the description
CUT_OFF = "is cut off"
DAMAGED = "cannot be decoded (its boxes are damaged)"
FROM_FILE, INLINE = 0, 1  # where data lie
MAX_PROPERTIES = 127  # of a new file
Property = tuple[bytes, bytes]
Extent = tuple[int, int]


@dataclass
class Item:
    """A coded image: its kind, where its data are (first byte, bytes), and what is known about it."""

    kind: bytes
    places: list[Extent] = field(default_factory=list)
    inline: bytes = b""  # data that lie among the descriptions
    properties: list[Property] = field(default_factory=list)

    def first(self, kind: bytes) -> bytes | None:
        return next((data for found, data in self.properties if found == kind), None)

    def cleaned(self, needed: Sequence[bytes]) -> "Item":
        """This item with the `needed` kinds of properties; of colour profiles only the short form."""
        kept = []
        for kind, data in self.properties:
            if kind in needed and (kind != b"colr" or data.startswith(b"nclx")) and kind not in dict(kept):
                kept.append((kind, data))
        return Item(self.kind, properties=kept)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as declared. Raises InputError ``picture-broken`` without."""
        extents = self.first(b"ispe") or b""
        if len(extents) < 12:
            raise broken(DAMAGED)
        return struct.unpack_from(">II", extents, 4)

    @property
    def profile(self) -> bytes:
        """The ICC profile, b"" without one."""
        found = (data for kind, data in self.properties if kind == b"colr" and data[:4] in (b"prof", b"rICC"))
        return next(found, b"")[4:]

    @property
    def orientation(self) -> int:
        """The EXIF number of the turn, anticlockwise, and of the mirror after it."""
        turn, mirror = self.first(b"irot"), self.first(b"imir")
        number = {0: 1, 1: 8, 2: 3, 3: 6}[turn[0] & 3 if turn else 0]
        if not mirror:
            return number
        # Mirrored top to bottom (axis 0) or left to right (axis 1).
        return ({1: 4, 8: 5, 3: 2, 6: 7} if mirror[0] & 1 == 0 else {1: 2, 8: 7, 3: 4, 6: 5})[number]


@dataclass
class Items:
    """All items of a file by number, the `main` one, and references (kind, from) -> numbers."""

    main: int
    items: dict[int, Item]
    references: dict[tuple[bytes, int], list[int]]

    def refer_to(self, kind: bytes, number: int) -> list[int]:
        """The items that refer to item `number` in this way."""
        return [
            source
            for (found, source), targets in self.references.items()
            if found == kind and number in targets
        ]


def read(file: BinaryIO, length: int) -> Items:
    """Raises InputError ``picture-broken``."""
    data = _meta(file, length)
    try:
        return _items(data, length)
    except (struct.error, IndexError):
        raise broken(DAMAGED) from None


def data_of(file: BinaryIO, item: Item, most: int) -> bytes:
    """The coded bytes of an item, at most `most`."""
    if item.inline:
        return item.inline
    if not item.places or sum(size for _, size in item.places) > most:
        raise broken(f"cannot be decoded (more than {most:,} bytes of pixels, or none)")
    pieces = []
    for at, size in item.places:
        file.seek(at)
        pieces.append(file.read(size))
    return b"".join(pieces)


def _meta(file: BinaryIO, length: int) -> bytes:
    """The content of the box that describes the items."""
    at = 0
    for _ in range(MAX_BOXES):
        file.seek(at)
        size, kind, head = _box(file.read(16))
        size = size or length - at
        if kind == b"meta":
            if size > MAX_META:
                raise broken(f"cannot be decoded (more than {MAX_META:,} bytes of descriptions)")
            if at + size > length:
                raise broken(CUT_OFF)
            file.seek(at + head + 4)
            return file.read(size - head - 4)
        at += size
        if at >= length:
            break
    raise broken("has no still image" if at == length else CUT_OFF)


def _box(data: bytes) -> tuple[int, bytes, int]:
    """(bytes, or 0 for all that follow; kind; bytes of the header) of the box at the start of `data`."""
    if len(data) < 8:
        raise broken(CUT_OFF)
    size, kind = struct.unpack_from(">I4s", data)
    head = 8
    if size == 1 and len(data) >= 16:
        (size,), head = struct.unpack_from(">Q", data, 8), 16
    if 0 < size < head or not kind.isascii():
        raise broken(DAMAGED)
    return size, kind, head


def _boxes(data: bytes):
    """(kind, content) of the boxes one after another."""
    at = 0
    for _ in range(4 * MAX_ITEMS):
        if at + 8 > len(data):
            return
        size, kind, head = _box(data[at : at + 16])
        size = size or len(data) - at
        if at + size > len(data):
            raise broken(DAMAGED)
        yield kind, data[at + head : at + size]
        at += size
    raise broken(DAMAGED)


def _items(data: bytes, length: int) -> Items:
    boxes = dict(_boxes(data))
    if not {b"pitm", b"iinf", b"iloc", b"iprp"} <= boxes.keys():
        raise broken("has no still image")
    main = boxes[b"pitm"]
    (number,) = struct.unpack_from(">I" if main[0] else ">H", main, 4)
    items = _kinds(boxes[b"iinf"])
    found = Items(number, items, _references(boxes.get(b"iref", bytes(4))))
    _places(boxes[b"iloc"], items, length, boxes.get(b"idat", b""))
    properties: list[Property] = []
    for kind, content in _boxes(boxes[b"iprp"]):
        if kind == b"ipco":
            properties = list(_boxes(content))
        elif kind == b"ipma":
            _associate(content, items, properties)
    if number not in items:
        raise broken(DAMAGED)
    return found


def _kinds(data: bytes) -> dict[int, Item]:
    items = {}
    for kind, content in _boxes(data[8:] if data[0] else data[6:]):
        if kind == b"infe" and content[0] in (2, 3):
            number, _, what = struct.unpack_from(">HH4s" if content[0] == 2 else ">IH4s", content, 4)
            items[number] = Item(what)
    if len(items) > MAX_ITEMS:
        raise broken(DAMAGED)
    return items


def _references(data: bytes) -> dict[tuple[bytes, int], list[int]]:
    letter = "I" if data[0] else "H"
    found: dict[tuple[bytes, int], list[int]] = {}
    for kind, content in _boxes(data[4:]):
        source, count = struct.unpack_from(f">{letter}H", content)
        targets = struct.unpack_from(f">{count}{letter}", content, struct.calcsize(f">{letter}H"))
        found.setdefault((kind, source), []).extend(targets)
    return found


def _places(data: bytes, items: dict[int, Item], length: int, inline: bytes) -> None:
    """The places of all items whose data lie in the file itself or `inline`."""
    version, reader = data[0], _Numbers(data, 4)
    sizes = reader.take(2)
    offset_size, length_size, base_size = sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15
    index_size = sizes & 15 if version else 0
    left = MAX_EXTENTS
    for _ in range(reader.take(4 if version == 2 else 2)):
        number = reader.take(4 if version == 2 else 2)
        method = reader.take(2) & 15 if version else FROM_FILE
        other_file = reader.take(2)
        base = reader.take(base_size)
        count = reader.take(2)
        left -= count
        if left < 0:
            raise broken(f"cannot be decoded (more than {MAX_EXTENTS:,} parts of items)")
        for _ in range(count):
            reader.take(index_size)
            at, size = base + reader.take(offset_size), reader.take(length_size)
            if other_file or number not in items:
                continue
            end = length if method == FROM_FILE else len(inline)
            size = size or end - at
            if size < 0 or at + size > end:
                raise broken(CUT_OFF)
            if method == FROM_FILE:
                items[number].places.append((at, size))
            elif method == INLINE:
                items[number].inline = inline[at : at + size]


class _Numbers:
    """Whole numbers of 0 to 8 bytes one after another."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at

    def take(self, size: int) -> int:
        if self.at + size > len(self.data):
            raise broken(DAMAGED)
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at])


def _associate(data: bytes, items: dict[int, Item], properties: list[Property]) -> None:
    reader = _Numbers(data, 4)
    wide = 2 if data[3] & 1 else 1
    for _ in range(reader.take(4)):
        item = items.get(reader.take(4 if data[0] else 2))
        for _ in range(reader.take(1)):
            index = reader.take(wide) & (0x7FFF if wide == 2 else 0x7F)
            if index > len(properties):
                raise broken(DAMAGED)
            if index and item is not None:
                item.properties.append(properties[index - 1])


def box(kind: bytes, *content: bytes) -> bytes:
    data = b"".join(content)
    return struct.pack(">I", len(data) + 8) + kind + data


def file_of(
    brand: bytes, parts: list[tuple[Item, bytes]], references: list[tuple[bytes, int, Sequence[int]]]
) -> list[bytes]:
    """The pieces of a file with these items and their data, numbered from 1; the first is the main one.

    `references` are (kind, from, to those).
    """
    start = box(b"ftyp", brand, bytes(4), brand, b"mif1miaf")
    meta = _new_meta(parts, references, 0)
    meta = _new_meta(parts, references, len(start) + len(meta) + 8)
    data = [content for _, content in parts]
    return [start, meta, struct.pack(">I", 8 + sum(map(len, data))) + b"mdat", *data]


def _new_meta(parts, references, at: int) -> bytes:
    infos, places, containers, links = [], [], [], []
    for number, (item, data) in enumerate(parts, start=1):
        infos.append(box(b"infe", bytes([2, 0, 0, 0]), struct.pack(">HH", number, 0), item.kind, b"\0"))
        places.append(struct.pack(">HHHII", number, 0, 1, at, len(data)))
        at += len(data)
        wanted = [box(kind, content) for kind, content in item.properties]
        containers += [container for container in wanted if container not in containers]
        if len(containers) > MAX_PROPERTIES:
            raise broken(DAMAGED)
        indices = [containers.index(container) + 1 for container in wanted]
        links.append(struct.pack(">HB", number, len(indices)) + bytes(indices))
    count = struct.pack(">H", len(parts))
    link = struct.pack(">I", len(parts)) + b"".join(links)
    bound = [
        box(kind, struct.pack(f">HH{len(targets)}H", source, len(targets), *targets))
        for kind, source, targets in references
    ]
    return box(
        b"meta", bytes(4),
        box(b"hdlr", bytes(8), b"pict", bytes(13)),
        box(b"pitm", bytes(4), struct.pack(">H", 1)),
        box(b"iinf", bytes(4), count, *infos),
        box(b"iloc", bytes(4), b"\x44\0", count, *places),
        *([box(b"iref", bytes(4), *bound)] if bound else []),
        box(b"iprp", box(b"ipco", *containers), box(b"ipma", bytes(4), link)),
    )  # fmt: skip
