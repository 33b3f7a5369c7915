"""What is learnt beside the delta in use: appended to its journal, and now and then made a part of it.

An append is one small write and one sync. A fold writes a new delta and a record that names it, so that a
power cut leaves the old delta with its journal or the new one without: no entry is lost or counts twice.
"""

from dataclasses import dataclass

from tinytrain.base.errors import StorageError
from tinytrain.store.journal import FRAME, MAX_ENTRY, MAX_JOURNAL, Entry
from tinytrain.store.record import Slot
from tinytrain.store.slots import Slots, State


@dataclass(frozen=True)
class Place:
    """Where the next entry goes: behind byte `end` of the journal of the delta in `slot`."""

    slot: Slot
    end: int = 0

    @classmethod
    def of(cls, state: State) -> "Place":
        """Behind the journal of the delta in use."""
        return cls(state.record.current, state.journal.end)


class ChangedError(Exception):
    """Another process has changed the store meanwhile."""


def append(slots: Slots, place: Place, entry: Entry) -> Place:
    """Add `entry` to the journal; on return it is on the medium. After an error it is not learnt.

    Raises ChangedError unless `place` is the end of the journal of the delta in use, StorageError
    ``journal-full``, and what methods of `Slots` do.
    """
    with slots.changing():
        journal = _at(slots, place).journal
        if journal.end > MAX_JOURNAL - MAX_ENTRY - FRAME:
            text = (
                f"{slots.folder}: {journal.end:,} bytes of corrections could not be made a part of the delta"
            )
            raise StorageError("journal-full", f"{text}; free some space and run again")
        return Place(place.slot, slots.files.append(place.slot, journal, entry))


def fold(slots: Slots, place: Place, data: bytes) -> Place:
    """Put `data`, the delta in use with all of its journal, in the place of both.

    Nothing else of the record changes. Raises what `append` does.
    """
    with slots.changing():
        record = _at(slots, place).record
        generation = max(record.generation, slots.files.highest_generation()) + 1
        slot = Slot.of(data, generation)
        slots.files.write_delta(slot, data)
        slots.files.switch(record.fold(slot))
        return Place(slot)


def _at(slots: Slots, place: Place) -> State:
    """The state of the store, if the journal of the delta in use ends at `place`."""
    state = slots.intact(strict=True)
    if state.record.current is None or Place.of(state) != place:
        raise ChangedError
    return state
