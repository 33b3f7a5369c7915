"""The state of a store, as a value and as the checksummed text of a record file.

A record is one line of JSON and the SHA-256 of that line. Two record files take turns, so that a write never
touches the newest one. The record with the higher sequence number is valid.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace

TRIAL_STARTS = 2
SCHEMA = 1
RECORDS = ("tinytrain-0.record", "tinytrain-1.record")
DELTA_TEMPORARY = "tinytrain-delta.tmp"
JOURNAL_TEMPORARY = "tinytrain-journal.tmp"
RECORD_TEMPORARY = "tinytrain-record.tmp"
DELTA_NAME = re.compile(r"tinytrain-([1-9][0-9]{0,17})\.delta")
JOURNAL_NAME = re.compile(r"tinytrain-[1-9][0-9]{0,17}\.journal")
MAX_RECORD = 4096
MAX_GENERATION = 10**15
MAX_NUMBER = 10**18
MAX_DELTA = 64 * 2**20
SHA256 = re.compile(r"[0-9a-f]{64}")


class DamagedRecordError(ValueError):
    """The bytes are not an intact record."""


@dataclass(frozen=True)
class Slot:
    """A delta in the store: its generation, and the size and checksum of its file."""

    generation: int
    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes, generation: int) -> "Slot":
        return cls(generation, len(data), hashlib.sha256(data).hexdigest())

    @property
    def name(self) -> str:
        """File name; it contains the generation, so that no file in use is ever written again."""
        return f"tinytrain-{self.generation}.delta"

    @property
    def journal(self) -> str:
        """File name of what was learnt since this delta was committed."""
        return f"tinytrain-{self.generation}.journal"

    def holds(self, data: bytes) -> bool:
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256


@dataclass(frozen=True)
class Record:
    """State of a store; the default is the empty store, which uses the bare network.

    `generation` is the highest ever assigned. `current` is on trial until `confirmed`; `starts` counts its
    trial starts. A roll-back returns to `previous`; None stands for the bare network. `to_beat` is the
    fraction of corrected images that `previous` got right, if the trial is judged by that.
    """

    sequence: int = 0
    generation: int = 0
    current: Slot | None = None
    previous: Slot | None = None
    confirmed: bool = True
    starts: int = 0
    to_beat: float | None = None

    @property
    def name(self) -> str:
        """The record file for this sequence number."""
        return RECORDS[self.sequence % 2]

    @property
    def exhausted(self) -> bool:
        """Whether the delta on trial has had all its starts."""
        return not self.confirmed and self.starts >= TRIAL_STARTS

    def files(self) -> set[str]:
        """Names of the deltas and journals that this record needs."""
        slots = [slot for slot in (self.current, self.previous) if slot]
        return {name for slot in slots for name in (slot.name, slot.journal)}

    def commit(self, slot: Slot, to_beat: float | None = None) -> "Record":
        """`slot` on trial. An unconfirmed delta is dropped, so that `previous` is a confirmed one."""
        return replace(
            self._next(),
            generation=slot.generation,
            current=slot,
            previous=self.current if self.confirmed else self.previous,
            confirmed=False,
            starts=0,
            to_beat=to_beat,
        )

    def fold(self, slot: Slot) -> "Record":
        """`slot`, which holds the delta in use and its journal, in the place of both."""
        return replace(self._next(), generation=slot.generation, current=slot)

    def count(self) -> "Record":
        """One trial start more."""
        return replace(self._next(), starts=self.starts + 1)

    def confirm(self, alone: bool) -> "Record":
        """`current` for good; if it is `alone`, nothing is left to go back to."""
        previous = None if alone else self.previous
        return replace(self._next(), previous=previous, confirmed=True, starts=0, to_beat=None)

    def roll_back(self) -> "Record":
        return self._next().without_current()

    def without_current(self) -> "Record":
        """The previous delta in use and confirmed, with the same sequence number."""
        return replace(self, current=self.previous, previous=None, confirmed=True, starts=0, to_beat=None)

    def _next(self) -> "Record":
        return replace(self, sequence=self.sequence + 1)


def encode_record(record: Record) -> bytes:
    line = json.dumps({"schema": SCHEMA, **asdict(record)}, separators=(",", ":")).encode()
    return b"%s\n%s\n" % (line, hashlib.sha256(line).hexdigest().encode())


def decode_record(data: bytes) -> Record:
    """Record of the bytes of a file. Raises DamagedRecordError."""
    lines = data.split(b"\n")
    if len(lines) != 3 or lines[2] or hashlib.sha256(lines[0]).hexdigest().encode() != lines[1]:
        raise DamagedRecordError("its checksum is wrong")
    try:
        facts = json.loads(lines[0])
        schema = facts.pop("schema")
        slots = {key: Slot(**facts[key]) if facts[key] else None for key in ("current", "previous")}
        record = Record(**{**facts, **slots})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedRecordError("it is not what this version writes") from error
    if schema != SCHEMA or not _makes_sense(record):
        raise DamagedRecordError("it is not what this version writes")
    return record


def _makes_sense(record: Record) -> bool:
    slots = [slot for slot in (record.current, record.previous) if slot]
    numbers = [record.sequence, record.generation, record.starts]
    numbers += [number for slot in slots for number in (slot.generation, slot.size)]
    return (
        all(type(number) is int and 0 <= number < MAX_NUMBER for number in numbers)
        and all(1 <= slot.generation <= record.generation and slot.size <= MAX_DELTA for slot in slots)
        and all(isinstance(slot.sha256, str) and SHA256.fullmatch(slot.sha256) for slot in slots)
        and type(record.confirmed) is bool
        and (record.to_beat is None or (type(record.to_beat) is float and 0 <= record.to_beat <= 1))
        and (record.current is not None or (record.previous is None and record.confirmed))
    )
