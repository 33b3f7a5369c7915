"""The A/B slots: commit, trial, confirm and roll back. The old or the new delta is always usable.

Deltas are bytes here; `deltastore` decodes them.
"""

import contextlib
import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.files import write_failed
from tinytrain.base.locks import lock_failed
from tinytrain.store.files import StoreFiles
from tinytrain.store.folder import Folder, NotLockedError
from tinytrain.store.journal import FRAME, MAX_ENTRY, MAX_JOURNAL, Entry, Journal
from tinytrain.store.record import TRIAL_STARTS, Record, Slot
from tinytrain.store.state import Place, State, carried_over, changed

LOOKS = 3


class Slots:
    """The two slots in `folder`.

    Every method may raise StorageError ``write-failed`` and InputError ``store-missing`` (no such folder) or
    ``store-damaged`` (no intact delta is left). Methods that change the delta in use may also raise
    StorageError ``store-busy`` (another process holds the store). After an error the delta in use is the same
    as before.
    """

    def __init__(self, folder: Folder):
        self.folder = folder
        self.files = StoreFiles(folder)

    def commit(self, data: bytes, place: Place | None = None, to_beat: float | None = None) -> Record:
        """Put `data` on trial; creates the folder if necessary. Also repairs a damaged store.

        What a trial that this ends has learnt goes on in the delta before it. If `place` is given and
        another process has learnt something since, raises ChangedError.
        """
        self.make()
        with self._as_tinytrain_errors(), self.folder.lock(create=True):
            state = self._look(strict=False)
            if place is not None:
                place.check(state, self.folder)
            self.settle_before(state)
            if not state.warnings:  # otherwise the newest record may be temporarily unreadable
                self.files.sweep(state.needed)
            return self._switch(state.record.commit(self._written(state, data), to_beat))

    def make(self) -> None:
        """Create the folder if it is missing."""
        try:
            self.folder.make()
        except OSError as error:
            raise write_failed(self.folder, error) from error

    def start(self, fits: Callable[[bytes], bool] = lambda data: True) -> State:
        """The delta for this start; counts the start if the delta is on trial.

        The count is on the medium before the method returns. If it cannot be written, or the store cannot be
        locked, the previous delta is used, because an uncounted trial would never end. Nothing is counted
        if neither the delta on trial nor the one before it `fits`, or while a process `holds` the store.
        """
        with self._as_tinytrain_errors():
            try:
                with self._lock():
                    state = self.intact(strict=False)
                    return self._counted(state) if self._is_start(state, fits) else state
            except NotLockedError as error:
                state = self._unlocked()
                uncounted = not state.record.confirmed and self._is_start(state, fits)
                return self._uncounted(state, error) if uncounted else state

    def _is_start(self, state: State, fits: Callable[[bytes], bool]) -> bool:
        if state.record.confirmed:
            return True
        if self.folder.is_held():
            return False
        if fits(state.data):
            return True
        before = self.without_current(state)
        return before is not None and before.data is not None and fits(before.data)

    def _counted(self, state: State) -> State:
        if state.record.confirmed:
            if not state.warnings:
                self.files.sweep(state.needed)
            return state
        if state.record.exhausted:
            return self._revert(state)
        try:
            return replace(state, record=self._switch(state.record.count()))
        except OSError as error:
            return self._uncounted(state, error)

    def _uncounted(self, state: State, error: OSError) -> State:
        text = f"the start could not be counted ({error.strerror})"
        return _warned(self.without_current(state) or state, text)

    def look(self, seconds: float | None = None) -> State:
        """The delta in use, without counting a start and without writing anything.

        A process that changes the store is waited for, so many `seconds` at most (`Folder.lock`).
        """
        with self._as_tinytrain_errors():
            try:
                with self.folder.lock(create=False, seconds=seconds):
                    return self.intact(strict=False)
            except NotLockedError:
                return self._unlocked()

    def is_confirmed(self) -> bool:
        """Whether the newest record says that no delta is on trial, or none can be read."""
        with self._as_tinytrain_errors():
            record, _ = self.files.newest(strict=False)
            return record is None or record.confirmed

    def look_before(self) -> State | None:
        """The state that a roll-back would restore; None if its delta is damaged."""
        with self._as_tinytrain_errors():
            return self.without_current(self.look())

    def confirm(
        self,
        place: Place | None = None,
        replaces: Callable[[State, State | None], bool] = lambda state, before: False,
    ) -> Record:
        """Keep the delta on trial; a confirmed one stays confirmed.

        The delta before it, with its journal, goes if the one in use `replaces` it (None: it is damaged).
        Raises InputError ``store-missing``, and ChangedError as `commit` does.
        """
        with self.changing():
            state = self.at(place)
            record = state.record
            alone = record.previous is not None and replaces(state, self.without_current(state))
            return record if record.confirmed and not alone else self._switch(record.confirm(alone))

    def remove_aside(self) -> None:
        """Remove the journals in which nothing could be read."""
        with self.changing():
            self.files.remove_aside()

    def roll_back(self, place: Place | None = None) -> Record:
        """Drop the delta in use and go back to the previous one, which learns what that had learnt.

        With a `place` only a trial is dropped. Raises what `confirm` does, or ``store-oldest`` if the delta
        in use is confirmed and there is no previous one.
        """
        with self.changing():
            state = self.at(place)
            record = state.record
            if place is not None and record.confirmed:
                raise changed(self.folder)
            if record.confirmed and record.previous is None:
                raise InputError(
                    "store-oldest",
                    f"generation {record.current.generation} in {self.folder} is confirmed and the only one "
                    "kept; apply another delta, or delete the folder to use the bare network",
                )
            before = self.without_current(state)
            if before is None:
                raise self._damaged(f"generation {record.previous.generation} is damaged")
            self.settled(before)
            return self._switch(record.roll_back())

    def append(self, place: Place, entry: Entry, suits: Callable[[State | None], None]) -> Place:
        """Add `entry` to the journal, one small write and one sync; on return it is on the medium.

        Before that `suits` may raise an error, while no other process can change the store: it is given the
        state if that is not at `place` any more, otherwise None. After an error nothing is learnt.
        """
        with self.changing():
            state = self.at(None)
            suits(state if Place.of(state) != place else None)
            if state.journal.end > MAX_JOURNAL - MAX_ENTRY - FRAME:
                remedy = "free some space" if state.record.confirmed else "confirm it or go back"
                text = (
                    f"{self.folder}: {state.journal.end:,} bytes of corrections could not be made a part of"
                )
                raise StorageError("write-failed", f"{text} the delta; {remedy} and run again")
            slot = state.record.current
            return Place(slot, self.files.append(slot, state.journal, entry))

    def fold(self, place: Place, data: bytes) -> Place:
        """Put `data`, the delta in use with all of its journal, in the place of both.

        A power cut leaves the old delta with its journal or the new one without: no entry is lost or counts
        twice. Nothing else of the record changes. Raises ChangedError unless the store is at `place`.
        """
        with self.changing():
            state = self.at(place)
            self.settle_before(state)
            slot = self._written(state, data)
            self._switch(state.record.fold(slot))
            return Place(slot)

    def settled(self, state: State) -> State:
        """The same, with what it carried over in the file of the journal. Raises OSError."""
        journal = state.journal
        for entry in state.carried:  # one by one, so that power cuts leave the first ones and no gap
            end = self.files.append(state.record.current, journal, entry)
            journal = replace(journal, end=end, torn=0, headless=False)
        return replace(state, journal=journal, carried=())

    def settle_before(self, state: State) -> None:
        """Put what the trial of `state` has learnt into the journal of the delta before it."""
        before = state if state.record.confirmed else self.without_current(state)
        if before is not None:
            self.settled(before)

    def at(self, place: Place | None) -> State:
        """The state of a store that is not empty, at `place` if one is given."""
        state = self.intact(strict=True)
        if state.record.current is None:
            raise self._empty()
        if place is not None:
            place.check(state, self.folder)
        return self.settled(state)

    def _revert(self, state: State) -> State:
        """The state for a start after a trial that ended without confirmation."""
        text = f"generation {state.record.current.generation} was not confirmed in {TRIAL_STARTS} starts"
        before = self.without_current(state)
        if before is None:
            # The delta on trial did start, and it is better than none.
            older = state.record.previous.generation
            return _warned(state, f"{text}, but generation {older} before it is damaged")
        text += " and was dropped"
        try:
            before = replace(self.settled(before), record=self._switch(state.record.roll_back()))
        except OSError as error:
            text += f", but this could not be recorded ({error.strerror})"
        return _warned(before, text)

    def _written(self, state: State, data: bytes) -> Slot:
        """The slot of the next generation, with `data` in its file."""
        slot = Slot.of(data, max(state.record.generation, self.files.highest_generation()) + 1)
        self.files.write_delta(slot, data)
        return slot

    def _switch(self, record: Record) -> Record:
        self.files.switch(record)
        return record

    def _look(self, *, strict: bool) -> State:
        """The newest intact record, without its damaged slots.

        With `strict`, a file that cannot be read raises OSError instead of counting as damaged: `confirm` and
        `roll_back` must act on the newest generation, not on the one before it.
        """
        record, damaged = self.files.newest(strict=strict)
        warnings = tuple(f"{name} is damaged" for name in damaged)
        if record is None:
            return State(Record(), warnings=warnings, lost=True)
        needed = frozenset(record.files())
        if record.current is None:
            return State(record, None, needed, warnings)
        # Before the delta, which is removed first: a journal that another process removes is not missed.
        journal, said = self._journal(record.current, strict)
        data = self.files.content(record.current, strict=strict)
        if data is not None:
            return State(record, data, needed, (*warnings, *said), journal=journal)
        warnings = (*warnings, f"generation {record.current.generation} is damaged")
        damaged_state = State(record, None, needed, (*warnings, *said), journal=journal)
        before = self.without_current(damaged_state)
        if before is None or (record.confirmed and record.previous is None):
            bare = replace(record, current=None, previous=None, confirmed=True, starts=0)
            return replace(damaged_state, record=bare, lost=True)
        return before

    def without_current(self, state: State) -> State | None:
        """The state with the previous delta in use; None if that delta is damaged."""
        previous = state.record.previous
        record = state.record.without_current()
        journal, said = self._journal(previous, False) if previous else (Journal(), ())
        data = self.files.content(previous, strict=False) if previous else None
        if previous and data is None:
            return None
        carried, unknown = carried_over(state, journal) if state.record.current else ((), ())
        if data is None:
            carried = ()
        journal = replace(journal, entries=(*journal.entries, *carried))
        warnings = (*state.warnings, *said, *unknown)
        return replace(state, record=record, data=data, journal=journal, carried=carried, warnings=warnings)

    def _journal(self, slot: Slot, strict: bool) -> tuple[Journal, tuple[str, ...]]:
        """The journal of the delta in `slot`, and warnings about it."""
        try:
            journal = self.files.journal(slot)
        except OSError as error:
            if strict:
                raise
            return Journal(), (f"{slot.journal} cannot be read ({error.strerror})",)
        said = [f"the first bytes of {slot.journal} are damaged"] if journal.headless else []
        if journal.headless and not journal.entries:
            said = [f"{slot.journal} is damaged, and none of its corrections can be read"]
        if journal.damaged:
            said.append(f"{journal.damaged} corrections in {slot.journal} are damaged and left out")
        return journal, tuple(said)

    def intact(self, *, strict: bool) -> State:
        """The state while the lock is held. Raises InputError ``store-damaged``, and OSError if `strict`."""
        state = self._look(strict=strict)
        if state.lost:
            raise self._damaged(", ".join(state.warnings))
        return state

    def _unlocked(self) -> State:
        """The state while other processes may write. Damage that a second look does not find was a change."""
        for _ in range(LOOKS - 1):
            state = self._look(strict=False)
            if not state.warnings:
                return state
        return self.intact(strict=False)

    def _damaged(self, text: str) -> InputError:
        return InputError("store-damaged", f"{self.folder}: {text}; apply the delta again")

    def _empty(self) -> InputError:
        return InputError("store-missing", f"{self.folder} holds 0 deltas; apply one first")

    def _lock(self):
        """The lock of an existing store; no lock file is created in another folder."""
        return self.folder.lock(create=self.files.exists())

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock of a store that is not empty, with errors of file operations in one line."""
        with self._as_tinytrain_errors():
            if not self.files.exists():
                raise self._empty()
            with self.folder.lock(create=True):
                yield

    @contextlib.contextmanager
    def _as_tinytrain_errors(self) -> Iterator[None]:
        """Turn errors of file operations into one-line errors."""
        try:
            yield
        except NotLockedError as error:
            if error.errno == errno.ETIMEDOUT:
                text = f"{self.folder}: {error.strerror}; let it end, or end it ('fuser {error.filename}')"
                raise StorageError("store-busy", text) from error
            raise lock_failed(Path(error.filename or str(self.folder)), error) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            text = f"{self.folder}: {error.strerror}; check the name, or make it with 'tinytrain apply'"
            raise InputError("store-missing", text) from error
        except OSError as error:
            raise write_failed(error.filename or self.folder, error) from error


def _warned(state: State, text: str) -> State:
    return replace(state, warnings=(*state.warnings, text))
