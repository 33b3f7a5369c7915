"""The journal of a delta: what was learnt since it was committed, one checked entry after another in a file.

The file begins with `MAGIC` and the SHA-256 of the delta that it goes on from. An entry is its length
(4 bytes), a checksum (16 bytes) and its content: the length of a JSON object (2 bytes), that object, and the
values of an embedding (float32, little-endian). The checksum covers the delta and the place in the file as
well, so that an entry counts nowhere else. An append that power cut short is not an entry.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinytrain.base.class_names import MAX_LETTERS, is_text

MAGIC = b"tinytrain journal 1\n"
HEADER = len(MAGIC) + 32
CHECKSUM = 16
FRAME = 4 + CHECKSUM
MAX_ENTRY = 2**17  # bytes of one entry: an embedding of 16,384 values is 65,536 of them
MAX_JOURNAL = 2**22  # bytes; nothing is appended beyond
LEARN, FORGET, RENAME, UNDO = "learn", "forget", "rename", "undo"
ACTIONS = (LEARN, FORGET, RENAME, UNDO)
MAX_MARK = 200


@dataclass(frozen=True, eq=False)
class Entry:
    """One thing that was learnt about class `name`.

    LEARN: `image`, a digest of its content, has this `embedding` (d,) float32 and takes the place of what was
    learnt of the same image before; UNDO: the last label of `image` is taken back; FORGET; RENAME to
    `new_name`. `mark` is a short text ``key:value`` of the caller; the last value of each key counts.
    """

    action: str
    name: str
    embedding: np.ndarray | None = None
    new_name: str = ""
    mark: str = ""
    image: str = ""


class DamagedEntryError(ValueError):
    """The bytes are no entry."""


@dataclass(frozen=True)
class Journal:
    """The `entries` of a journal file, which end at byte `end`; 0 if there is no file for this delta.

    `damaged` is the number of entries in between that do not match their checksum, `torn` that of bytes after
    the end: an append that was cut short.
    """

    entries: tuple[Entry, ...] = ()
    end: int = 0
    damaged: int = 0
    torn: int = 0


def header(sha256: str) -> bytes:
    """The first bytes of the journal of the delta with this checksum."""
    return MAGIC + bytes.fromhex(sha256)


def framed(entry: Entry, sha256: str, place: int) -> bytes:
    """The bytes of `entry` at byte `place` of the journal of the delta `sha256`."""
    facts = {"do": entry.action, "class": entry.name, "to": entry.new_name, "mark": entry.mark}
    facts["image"] = entry.image
    text = json.dumps({key: value for key, value in facts.items() if value}, separators=(",", ":")).encode()
    values = b"" if entry.embedding is None else np.ascontiguousarray(entry.embedding, "<f4").tobytes()
    content = struct.pack("<H", len(text)) + text + values
    return struct.pack("<I", len(content)) + _checksum(content, sha256, place) + content


def decode_journal(data: bytes, sha256: str) -> Journal:
    """What is intact in the bytes of a journal file of the delta with checksum `sha256`."""
    if not data.startswith(header(sha256)):
        return Journal()
    entries, end, damaged, passed = [], HEADER, 0, 0
    for place, content, checksum in _frames(data):
        try:
            entries.append(_entry(content, checksum, sha256, place))
        except DamagedEntryError:
            passed += 1  # torn, unless something intact follows
            continue
        end, damaged, passed = place + FRAME + len(content), damaged + passed, 0
    return Journal(tuple(entries), end, damaged, len(data) - end)


def _frames(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    place = HEADER
    while place + FRAME <= len(data):
        (size,) = struct.unpack_from("<I", data, place)
        if size > MAX_ENTRY or place + FRAME + size > len(data):
            return
        yield place, data[place + FRAME : place + FRAME + size], data[place + 4 : place + FRAME]
        place += FRAME + size


def _entry(content: bytes, checksum: bytes, sha256: str, place: int) -> Entry:
    if _checksum(content, sha256, place) != checksum:
        raise DamagedEntryError("its checksum is wrong")
    try:
        (size,) = struct.unpack_from("<H", content)
        facts = json.loads(content[2 : 2 + size])
        values = np.frombuffer(content[2 + size :], "<f4").astype(np.float32)
        entry = Entry(
            facts["do"],
            facts["class"],
            values if len(values) else None,
            facts.get("to", ""),
            facts.get("mark", ""),
            facts.get("image", ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise DamagedEntryError("it is not what this version writes") from error
    if not _makes_sense(entry):
        raise DamagedEntryError("it is not what this version writes")
    return entry


def _makes_sense(entry: Entry) -> bool:
    names = [entry.name, *([entry.new_name] if entry.action == RENAME else [])]
    return (
        entry.action in ACTIONS
        and all(is_text(name) and 1 <= len(name) <= MAX_LETTERS for name in names)
        and all(is_text(text) and len(text) <= MAX_MARK for text in (entry.mark, entry.image))
        and (entry.embedding is not None) == (entry.action == LEARN)
        and (entry.embedding is None or bool(np.isfinite(entry.embedding).all()))
    )


def _checksum(content: bytes, sha256: str, place: int) -> bytes:
    bound = bytes.fromhex(sha256) + struct.pack("<QI", place, len(content))
    return hashlib.sha256(bound + content).digest()[:CHECKSUM]
