"""The files of a store: reading them with every doubt settled, writing them in the order that power cuts ask.

A new file is written under a temporary name, synced, renamed, and the folder synced; whatever is read is
checked against a SHA-256. Raises OSError where the file system does.
"""

import contextlib

from tinytrain.store.folder import Folder
from tinytrain.store.record import (
    DELTA_NAME,
    DELTA_TEMPORARY,
    MAX_GENERATION,
    MAX_RECORD,
    RECORD_TEMPORARY,
    RECORDS,
    DamagedRecordError,
    Record,
    Slot,
    decode_record,
    encode_record,
)


class StoreFiles:
    """Records and deltas in `folder`; any other file there is left alone."""

    def __init__(self, folder: Folder):
        self.folder = folder

    def exists(self) -> bool:
        """Whether anything was ever committed here."""
        return not set(RECORDS).isdisjoint(self.folder.names())

    def newest(self, *, strict: bool) -> tuple[Record | None, tuple[str, ...]]:
        """The newest whole record, and the names of damaged ones.

        Without any record file it is the empty record, with damaged ones only it is None. A record that the
        file system cannot read counts as damaged; with `strict` that raises OSError.
        """
        records, damaged = [], []
        names = self.folder.names()
        for name in (name for name in RECORDS if name in names):
            try:
                records.append(decode_record(self.folder.read(name, MAX_RECORD)))
            except DamagedRecordError:
                damaged.append(name)
            except OSError:
                if strict:
                    raise
                damaged.append(name)
        nothing = None if damaged else Record()
        return max(records, key=lambda record: record.sequence, default=nothing), tuple(damaged)

    def content(self, slot: Slot, *, strict: bool) -> bytes | None:
        """The bytes of `slot`, None where they are missing or not what its checksum says.

        A file that the file system cannot read gives None; with `strict` that raises OSError.
        """
        try:
            data = self.folder.read(slot.name, slot.size)
        except FileNotFoundError:
            return None
        except OSError:
            if strict:
                raise
            return None
        return data if slot.holds(data) else None

    def highest_generation(self) -> int:
        """Of the delta files that are there, whether a record refers to them or not; 0 without any.

        Numbers that no store reaches do not count: what somebody has put there must not use them up.
        """
        matches = (DELTA_NAME.fullmatch(name) for name in self.folder.names())
        generations = (int(match[1]) for match in matches if match)
        return max((number for number in generations if number < MAX_GENERATION), default=0)

    def write_delta(self, slot: Slot, data: bytes) -> None:
        """Put `data` on the medium as the file of `slot`."""
        self._publish(DELTA_TEMPORARY, slot.name, data)

    def switch(self, record: Record) -> None:
        """Make `record` the newest. On return it is on the medium; after an error the old one counts."""
        # The newest record may come from a process that was killed before its sync. The other one must not
        # be replaced before that record is on the medium: a power cut could take both.
        self.folder.sync()
        self._publish(RECORD_TEMPORARY, record.name, encode_record(record))
        self.sweep(record.files())

    def sweep(self, needed: set[str] | frozenset[str]) -> None:
        """Remove deltas and temporary files that are not `needed`; left there, they would do no harm."""
        temporary = (DELTA_TEMPORARY, RECORD_TEMPORARY)
        with contextlib.suppress(OSError):
            ours = [n for n in self.folder.names() if n in temporary or DELTA_NAME.fullmatch(n)]
            unneeded = [name for name in ours if name not in needed]
            if unneeded:
                # The record that does without them may come from a process that was killed before its sync.
                # Then a power cut could still undo the record, so it must not find them gone.
                self.folder.sync()
            for name in unneeded:
                with contextlib.suppress(OSError):  # a folder with something inside keeps nothing else here
                    self.folder.remove(name)

    def _publish(self, temporary: str, name: str, data: bytes) -> None:
        written = temporary
        try:
            with self.folder.create(temporary) as file:
                file.write(data)
                file.sync()
            self.folder.rename(temporary, name)
            written = name
            self.folder.sync()
        except BaseException:
            # A record that is taken away again leaves the other record, which is the old state.
            with contextlib.suppress(OSError):
                self.folder.remove(written)
                self.folder.sync()
            raise
