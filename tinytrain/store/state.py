"""What a store is at a moment, and what of it stays if the delta in use is dropped."""

from collections import Counter
from dataclasses import dataclass, replace

from tinytrain.base.errors import StorageError
from tinytrain.store.journal import LEARN, UNDO, Entry, Journal
from tinytrain.store.record import Record, Slot

NO_JOURNAL = Journal()


class ChangedError(StorageError):
    """Another process has changed the store meanwhile."""


def changed(store: object) -> ChangedError:
    """The error for a store that is not what it was."""
    return ChangedError("store-changed", f"another process has changed {store} meanwhile; run again")


@dataclass(frozen=True)
class State:
    """The record of a store, the content of the delta in use (None for the bare network), and its journal.

    `record` does not contain damaged slots. `needed` are the files of the newest record as written. `lost`
    is true if a delta should be in use but none is intact. `carried` are the last entries of the journal if
    they are not in its file yet.
    """

    record: Record
    data: bytes | None = None
    needed: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    lost: bool = False
    journal: Journal = NO_JOURNAL
    carried: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where the next entry goes: behind byte `end` of the journal of the delta in `slot`."""

    slot: Slot | None
    end: int = 0

    @classmethod
    def of(cls, state: State) -> "Place":
        """Behind the journal of the delta in use."""
        return cls(state.record.current, state.journal.end)

    def check(self, state: State, store: object) -> None:
        """Raise ChangedError if this is not the place of `state` any more."""
        if self != Place.of(state):
            raise changed(store)


def carried_over(state: State, journal: Journal) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """What the delta before the one in use, with this `journal`, can learn of what that has learnt.

    Also a warning if there is something that it cannot. The origin of an entry keeps it from counting twice
    if power goes after it was carried over and before the delta in use is dropped.
    """
    generation = state.record.current.generation
    there = {entry.origin for entry in journal.entries}
    known, unknown, missing = [], Counter(), {}
    for number, entry in enumerate(state.journal.entries):
        origin = f"{generation}:{number}"
        if entry.action == LEARN and entry.before is None:
            unknown[entry.name] += 1
            missing[entry.image] = entry.name
        elif entry.action == UNDO and entry.image in missing:
            unknown[missing.pop(entry.image)] -= 1
        elif origin not in there:
            known.append(replace(entry, embedding=entry.before, before=None, right=None, origin=origin))
    unknown = +unknown
    if not unknown:
        return tuple(known), ()
    names = ", ".join(f"{name} {count}" for name, count in unknown.items())
    text = f"{unknown.total()} corrections of generation {generation} are not known to the delta before it"
    return tuple(known), (f"{text}: {names}",)
