"""The journal of a delta: what was learnt since it was committed, one checked entry after another in a file.

The file begins with `MAGIC` and the SHA-256 of the delta that it goes on from. An entry is its length
(4 bytes), a checksum (16 bytes) and its content: the length of a JSON object (2 bytes), that object, and the
values of an embedding or two (float32, little-endian). The checksum covers the delta and the place in the
file as well, so that an entry counts nowhere else. An append that power cut short is not an entry. Behind
damage, the next entry is found by how its object begins.
"""

import hashlib
import json
import struct
from dataclasses import dataclass

import numpy as np

from tinytrain.base.class_names import MAX_LETTERS, is_text

MAGIC = b"tinytrain journal 1\n"
HEADER = len(MAGIC) + 32
CHECKSUM = 16
FRAME = 4 + CHECKSUM
OPENING = b'{"do":"'  # of the object of every entry
MAX_ENTRY = 2**18  # bytes of one entry: two embeddings of 16,384 values are 131,072 of them
MAX_JOURNAL = 2**22  # bytes; nothing is appended beyond
LEARN, FORGET, RENAME, UNDO = "learn", "forget", "rename", "undo"
ACTIONS = (LEARN, FORGET, RENAME, UNDO)
MAX_MARK = 200
TEXTS = {"to": "new_name", "mark": "mark", "image": "image", "from": "origin"}  # key in a file -> field


@dataclass(frozen=True, eq=False)
class Entry:
    """One thing that was learnt about class `name`.

    LEARN: `image`, a digest of its content, has this `embedding` (d,) float32 and takes the place of what was
    learnt of the same image before; UNDO: the last label of `image` is taken back; FORGET; RENAME to
    `new_name`. `mark` is a short text ``key:value`` of the caller; the last value of each key counts.
    `before` (d,) is the embedding by the network of the delta before, which learns from it if the one in use
    is dropped. `right` says whether the image was taken for what it is, None if that is not known. `origin`
    names the entry of a dropped delta that this one was.
    """

    action: str
    name: str
    embedding: np.ndarray | None = None
    new_name: str = ""
    mark: str = ""
    image: str = ""
    before: np.ndarray | None = None
    right: bool | None = None
    origin: str = ""


class DamagedEntryError(ValueError):
    """The bytes are no entry."""


@dataclass(frozen=True)
class Journal:
    """The `entries` of a journal file, which end at byte `end`; 0 if there is no file for this delta.

    `damaged` is the number of entries in between that do not match their checksum, `torn` that of bytes after
    the end: an append that was cut short. `headless`: the file does not begin as it should.
    """

    entries: tuple[Entry, ...] = ()
    end: int = 0
    damaged: int = 0
    torn: int = 0
    headless: bool = False


def header(sha256: str) -> bytes:
    """The first bytes of the journal of the delta with this checksum."""
    return MAGIC + bytes.fromhex(sha256)


def framed(entry: Entry, sha256: str, place: int) -> bytes:
    """The bytes of `entry` at byte `place` of the journal of the delta `sha256`."""
    facts = {
        "do": entry.action,
        "class": entry.name,
        **{k: getattr(entry, name) for k, name in TEXTS.items()},
    }
    facts["two"] = entry.before is not None
    facts = {key: value for key, value in facts.items() if value}
    if entry.right is not None:
        facts["right"] = entry.right
    text = json.dumps(facts, separators=(",", ":")).encode()
    arrays = [array for array in (entry.embedding, entry.before) if array is not None]
    values = b"".join(np.ascontiguousarray(array, "<f4").tobytes() for array in arrays)
    content = struct.pack("<H", len(text)) + text + values
    return struct.pack("<I", len(content)) + _checksum(content, sha256, place) + content


def decode_journal(data: bytes, sha256: str) -> Journal:
    """What is intact in the bytes of a journal file of the delta with checksum `sha256`."""
    entries, end, damaged, passed = [], HEADER, 0, 0
    place = HEADER
    while place + FRAME <= len(data):
        (size,) = struct.unpack_from("<I", data, place)
        checksum, content = data[place + 4 : place + FRAME], data[place + FRAME : place + FRAME + size]
        try:
            if size > MAX_ENTRY or len(content) < size:
                raise DamagedEntryError("its length is wrong")
            entries.append(_entry(content, checksum, sha256, place))
        except DamagedEntryError:
            passed += 1  # torn, unless something intact follows
            opening = data.find(OPENING, place + FRAME + 3)
            if opening < 0:
                break
            place = opening - FRAME - 2
            continue
        place = end = place + FRAME + size
        damaged, passed = damaged + passed, 0
    headless = not data.startswith(header(sha256))
    if headless and not entries:
        return Journal(headless=True)
    return Journal(tuple(entries), end, damaged, max(0, len(data) - end), headless)


def _entry(content: bytes, checksum: bytes, sha256: str, place: int) -> Entry:
    if _checksum(content, sha256, place) != checksum:
        raise DamagedEntryError("its checksum is wrong")
    try:
        (size,) = struct.unpack_from("<H", content)
        facts = json.loads(content[2 : 2 + size])
        values = np.frombuffer(content[2 + size :], "<f4").astype(np.float32)
        both = np.array_split(values, 2) if facts.get("two") else [values, None]
        texts = {name: facts.get(key, "") for key, name in TEXTS.items()}
        learnt = both[0] if len(values) else None
        entry = Entry(facts["do"], facts["class"], learnt, before=both[1], right=facts.get("right"), **texts)
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
        and all(is_text(text) and len(text) <= MAX_MARK for text in (entry.mark, entry.image, entry.origin))
        and (entry.right is None or type(entry.right) is bool)
        and (entry.embedding is not None) == (entry.action == LEARN)
        and all(array is None or np.isfinite(array).all() for array in (entry.embedding, entry.before))
        and (entry.before is None or (entry.action == LEARN and entry.before.shape == entry.embedding.shape))
    )


def _checksum(content: bytes, sha256: str, place: int) -> bytes:
    bound = bytes.fromhex(sha256) + struct.pack("<QI", place, len(content))
    return hashlib.sha256(bound + content).digest()[:CHECKSUM]
