"""The delta that a device uses: kept in two slots, on trial until confirmed, safe from power cuts.

::

    store = Store("state")
    store.commit(report.delta)   # on trial: without confirm() it is dropped after two starts
    start = store.start()        # once per start of the device; use start.delta
    store.confirm()              # keep it
    store.roll_back()            # or go back to the previous delta

What is learnt later (`append`) is in a journal beside the delta in use, and `fold` makes it a part of that.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from tinytrain import kernels as kernel_table
from tinytrain.base.errors import InputError
from tinytrain.base.file_kinds import refuse_other_kinds
from tinytrain.base.files import read_bytes, write_bytes
from tinytrain.base.safetensors import decode
from tinytrain.delta.classes import forgot_more
from tinytrain.delta.delta import Delta
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.network.input_spec import IMAGE
from tinytrain.store.folder import Folder
from tinytrain.store.journal import LEARN, Entry
from tinytrain.store.journal_replay import in_force, replayed
from tinytrain.store.kept import FOLDER, CorrectedImages
from tinytrain.store.record import MAX_DELTA, TRIAL_STARTS, Slot
from tinytrain.store.slots import Slots
from tinytrain.store.state import Place, State
from tinytrain.trust.keys import MOST, read_signed

KEYS = "tinytrain.keys"  # the file of public keys in a store that takes signed files only


@dataclass(frozen=True, eq=False)
class Start:
    """The delta to start with (None: the bare network), its generation, and warnings for the user.

    `delta` knows what was learnt since `base` was committed: all of the `journal`, which ends at `place`
    (None: there is no delta). `torn` is true if the last entry was cut short. On trial, `before` is the
    SHA-256 of the delta that a roll-back restores (None: the bare network), and `to_beat` is given if it is
    judged by corrections: the fraction of corrected images that were right before.
    """

    delta: Delta | None
    confirmed: bool
    starts: int
    warnings: tuple[str, ...]
    place: Place | None = None
    base: Delta | None = None
    journal: tuple[Entry, ...] = ()
    torn: bool = False
    before: str | None = None
    to_beat: float | None = None

    @property
    def generation(self) -> int | None:
        """That of `base`."""
        return self.place.slot.generation if self.place else None


class Store:
    """The store in folder `path`; the first commit creates the folder.

    Every method may raise InputError ``store-missing`` or ``store-damaged``, and StorageError
    ``write-failed``. Methods that change the delta in use may also raise StorageError ``store-busy``. After
    an error the delta in use is the same as before.
    """

    def __init__(self, path: str | os.PathLike, backend: str = "auto"):
        self.path, self._backend = path, backend
        self.kept = CorrectedImages(os.path.join(path, FOLDER))
        self._slots = Slots(Folder(path))

    def commit(self, delta: Delta, place: Place | None = None, to_beat: float | None = None) -> int:
        """Put `delta` on trial and return its generation. Raises InputError for a bad delta.

        A store that takes signed files only takes what is made of the delta in use, at its `place`, as well.
        `place` is that of the start that `delta` was made from: if the store has another delta or has learnt
        something since, StorageError ``store-changed`` is raised. `to_beat` is as in `Start`.
        """
        if place is None:
            self.check_unsigned()
        return self._slots.commit(encode_delta(delta), place, to_beat).current.generation

    def check_unsigned(self) -> None:
        """Raise InputError ``file-missing`` if the store takes signed files only."""
        if self.signed_by is not None:
            text = f"{self.path} takes files alone that are signed with a key of {self.signed_by}"
            raise InputError("file-missing", f"{text}; write the delta to a file, sign it, and apply that")

    @property
    def signed_by(self) -> str | None:
        """The file of public keys, by one of which everything must be signed that comes from elsewhere."""
        path = os.path.join(self.path, KEYS)
        return path if os.path.lexists(path) else None

    def commit_file(self, path: str | os.PathLike, signed_by: str | os.PathLike | None = None) -> int:
        """Put the delta file `path` on trial, byte for byte; otherwise like `commit`.

        With `signed_by`, a file of public keys, it must be signed with one of these (`trust.keys`), and so
        must every file from then on. Raises InputError ``file-missing`` or ``file-damaged`` if it is not.
        """
        refuse_other_kinds(path, "delta")
        data = read_signed(path, MAX_DELTA, self.signed_by if signed_by is None else signed_by)
        decode_delta(*decode(data, str(path)), str(path))
        if signed_by is not None:  # before the delta: a power cut must leave no store that takes any
            self._slots.make()
            write_bytes(os.path.join(self.path, KEYS), read_bytes(signed_by, MOST))
        return self._slots.commit(data).current.generation

    def start(self, backbone: str | Callable[[Delta], bool] | None = None) -> Start:
        """The delta for this start; counts the start if the delta is on trial.

        `backbone` is the digest of a network, or says of a delta whether its network is there. If it is
        given, and neither the delta on trial nor the one before it is for such a network, this is a `peek`.
        So it is while another process holds the store.

        After two starts without `confirm` the previous delta is used again. If a start cannot be counted
        (full disk, or another process holds the store for more than 20 s), this start uses the previous
        delta.
        """
        if backbone is None:
            return self._start(self._slots.start())
        is_here = backbone if callable(backbone) else lambda delta: delta.backbone == backbone
        return self._start(self._slots.start(lambda data: _may_be_for(is_here, data)))

    def peek(self, seconds: float | None = None) -> Start:
        """The delta in use, without counting a start. It waits for who changes it, `seconds` at most."""
        return self._start(self._slots.look(seconds))

    def is_confirmed(self) -> bool:
        """Whether nothing is on trial, as the record says; neither a delta nor a journal is read."""
        return self._slots.is_confirmed()

    def hold(self) -> int:
        """A descriptor: while it is open, starts of other processes do not count.

        Who learns from corrections holds the store, as it judges the trial. Raises OSError.
        """
        return self._slots.folder.hold()

    def append(self, place: Place, entry: Entry, suits: Callable[[Start | None], None]) -> Place:
        """Add `entry` to what was learnt since the delta in use was committed; on return it is kept.

        `place` is that of the start or of the last append. Before anything is written `suits` may raise an
        error; it is given what the store holds if another process has changed that since, otherwise None.
        Raises StorageError ``write-failed``.
        """
        return self._slots.append(place, entry, lambda state: suits(state and self._start(state)))

    def fold(self, place: Place, delta: Delta) -> Place:
        """Put `delta`, which knows the whole journal, in the place of the delta in use and its journal.

        It is as confirmed as that was. Raises ChangedError unless the store is at `place`, and InputError for
        a bad delta.
        """
        return self._slots.fold(place, encode_delta(delta))

    def before(self) -> Start | None:
        """What a roll-back would restore; None if it is damaged.

        Its warnings name what the delta in use has learnt and this one cannot learn.
        """
        state = self._slots.look_before()
        return None if state is None else self._start(state)

    def confirm(self, place: Place | None = None) -> int:
        """Keep the delta on trial and return its generation.

        If a class was forgotten in it, what knows the class goes, and what cannot be read and may know it:
        the delta before, to which there is no way back then, journals, also those that were set aside, and
        kept images of classes that the delta does not know.

        Raises InputError ``store-missing``, and ``store-changed`` for a `place` as `commit` does.
        """
        generation = self._slots.confirm(place, self._forgot_more).current.generation
        start = self.peek()
        if start.delta is not None and "forgotten" in start.delta.report:
            if forgot_more(start.delta, start.base):
                generation = self.fold(start.place, start.delta).slot.generation
            self._slots.remove_aside()
            for name in self.kept.counts().keys() - set(start.delta.class_names):
                self.kept.forget(name)
        return generation

    def roll_back(self, place: Place | None = None) -> int | None:
        """Go back to the previous delta. Returns its generation, None for the bare network.

        That learns what the dropped one had learnt, unless the warnings of `before` name it. With a `place`
        only a trial is dropped. Raises what `confirm` does, or InputError ``store-oldest`` if that would drop
        the only confirmed delta.
        """
        current = self._slots.roll_back(place).current
        return current.generation if current else None

    def status(self) -> dict:
        """The content of the slots as JSON values.

        "sha256" of the current one is that of the delta in use with what was learnt since, as it is exported,
        "file_sha256" that of its file, which does not change meanwhile.
        """
        state = self._slots.look()
        record, start, journal = state.record, self._start(state), state.journal
        current, warnings = self._facts(record.current, start.delta), start.warnings
        if journal.entries:
            in_use = encode_delta(start.delta)
            current |= {"bytes": len(in_use), "sha256": hashlib.sha256(in_use).hexdigest()}
        if journal.torn:
            text = f"the end of {record.current.journal} is damaged, or the last correction was cut short"
            warnings += (f"{text}: {journal.torn:,} bytes are left out",)
        left = None if record.confirmed else TRIAL_STARTS - record.starts
        return {
            "store": os.fspath(self.path),
            "current": current,
            "confirmed": record.confirmed,
            "starts": record.starts,
            "starts_left": left,
            "to_beat": record.to_beat,
            "learnt": sum(entry.action == LEARN for entry in in_force(journal.entries)),
            "damaged": journal.damaged + (journal.torn > 0),
            "previous": self._facts(record.previous),
            "warnings": list(warnings),
        }

    def _start(self, state: State) -> Start:
        record = state.record
        generation = record.current.generation if record.current else None
        delta = base = place = None
        if state.data is not None:
            source = f"{self.path}: generation {generation}"
            delta = base = decode_delta(*decode(state.data, source), source)
            place = Place.of(state)
        entries, warnings = state.journal.entries, [*state.warnings]
        if entries:
            delta = replayed(kernel_table.load(self._backend), delta, entries, warnings)
        previous = None if record.confirmed else record.previous
        return Start(
            delta,
            record.confirmed,
            record.starts,
            tuple(warnings),
            place,
            base,
            entries,
            state.journal.torn > 0,
            previous.sha256 if previous else None,
            record.to_beat,
        )

    def _forgot_more(self, state: State, before: State | None) -> bool:
        known = None
        with contextlib.suppress(InputError):  # this version may not read what an earlier one has written
            known = before and decode_delta(*decode(before.data))
        return forgot_more(self._start(state).delta, known)

    @staticmethod
    def _facts(slot: Slot | None, delta: Delta | None = None) -> dict | None:
        if slot is None:
            return None
        facts = {"generation": slot.generation, "bytes": slot.size, "sha256": slot.sha256}
        if delta:
            from tinytrain.delta.merge import sources_of

            facts |= {
                "file_sha256": slot.sha256,
                "backbone": delta.backbone_name,
                "kind": delta.report.get("episode", {}).get("kind", IMAGE),
                "classes": list(delta.class_names),
                "merged_of": [{k: row[k] for k in ("sums", "images")} for row in sources_of(delta)],
            }
        return facts


def _may_be_for(is_here: Callable[[Delta], bool], data: bytes) -> bool:
    """Whether the network that the delta `data` is for is here; true for a damaged delta as well."""
    try:
        return is_here(decode_delta(*decode(data)))
    except InputError:
        return True
