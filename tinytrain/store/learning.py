"""What is learnt beside the delta in use: appended to its journal, and now and then made a part of it.

An append is one small write and one sync. A fold writes a new delta and a record that names it, so that a
power cut leaves the old delta with its journal or the new one without: no entry is lost or counts twice.
"""

from collections.abc import Callable

from tinytrain.base.errors import StorageError
from tinytrain.store.journal import FRAME, MAX_ENTRY, MAX_JOURNAL, Entry
from tinytrain.store.record import Slot
from tinytrain.store.slots import Slots
from tinytrain.store.state import Place, State


def append(slots: Slots, place: Place, entry: Entry, suits: Callable[[State | None], None]) -> Place:
    """Add `entry` to the journal; on return it is on the medium. After an error it is not learnt.

    Before that `suits` may raise an error, while no other process can change the store: it is given the
    state if that is not at `place` any more, otherwise None. Raises StorageError ``write-failed``, and what
    methods of `Slots` do.
    """
    with slots.changing():
        state = slots.at(None)
        suits(state if Place.of(state) != place else None)
        if state.journal.end > MAX_JOURNAL - MAX_ENTRY - FRAME:
            remedy = "free some space" if state.record.confirmed else "confirm it or go back"
            text = f"{slots.folder}: {state.journal.end:,} bytes of corrections could not be made a part of"
            raise StorageError("write-failed", f"{text} the delta; {remedy} and run again")
        return Place(state.record.current, slots.files.append(state.record.current, state.journal, entry))


def fold(slots: Slots, place: Place, data: bytes) -> Place:
    """Put `data`, the delta in use with all of its journal, in the place of both.

    Nothing else of the record changes. Raises ChangedError unless the store is at `place`, and what methods
    of `Slots` do.
    """
    with slots.changing():
        state = slots.at(place)
        slots.settle_before(state)
        record = state.record
        generation = max(record.generation, slots.files.highest_generation()) + 1
        slot = Slot.of(data, generation)
        slots.files.write_delta(slot, data)
        slots.files.switch(record.fold(slot))
        return Place(slot)
