"""The files of a store, checked on reading and written in an order that survives power cuts.

A new file is written under a temporary name, synced and renamed, and the folder is synced. Every file that is
read is checked against a SHA-256. The methods raise OSError if the file system does.
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
    """Records and deltas in `folder`; other files there are left alone."""

    def __init__(self, folder: Folder):
        self.folder = folder

    def exists(self) -> bool:
        """Whether anything was ever committed here."""
        return not set(RECORDS).isdisjoint(self.folder.names())

    def newest(self, *, strict: bool) -> tuple[Record | None, tuple[str, ...]]:
        """The newest intact record, and the names of damaged ones.

        Without a record file it is the empty record; if all are damaged it is None. A record that the file
        system cannot read counts as damaged; with `strict` it raises OSError.
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
        """The bytes of `slot`; None if the file is missing or does not match its checksum.

        A file that the file system cannot read gives None; with `strict` it raises OSError.
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
        """The highest generation of the delta files in the folder, referenced or not; 0 without any.

        Numbers from `MAX_GENERATION` on are ignored: a foreign file must not use up the generations.
        """
        matches = (DELTA_NAME.fullmatch(name) for name in self.folder.names())
        generations = (int(match[1]) for match in matches if match)
        return max((number for number in generations if number < MAX_GENERATION), default=0)

    def write_delta(self, slot: Slot, data: bytes) -> None:
        """Write `data` to the medium as the file of `slot`."""
        self._publish(DELTA_TEMPORARY, slot.name, data)

    def switch(self, record: Record) -> None:
        """Make `record` the newest. On return it is on the medium; after an error the old one is valid."""
        # A killed process may have left the newest record unsynced. Sync it before the other record is
        # replaced, or a power cut could destroy both.
        self.folder.sync()
        self._publish(RECORD_TEMPORARY, record.name, encode_record(record))
        self.sweep(record.files())

    def sweep(self, needed: set[str] | frozenset[str]) -> None:
        """Remove deltas and temporary files that are not `needed`; a failure does no harm."""
        temporary = (DELTA_TEMPORARY, RECORD_TEMPORARY)
        with contextlib.suppress(OSError):
            ours = [n for n in self.folder.names() if n in temporary or DELTA_NAME.fullmatch(n)]
            unneeded = [name for name in ours if name not in needed]
            if unneeded:
                # A killed process may have left the record that does not need them unsynced. Sync it first,
                # because a power cut could bring back the old record, which needs them.
                self.folder.sync()
            for name in unneeded:
                with contextlib.suppress(OSError):  # a folder with content stays, the other files go
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
            # Without the new record the other record is valid again: the old state.
            with contextlib.suppress(OSError):
                self.folder.remove(written)
                self.folder.sync()
            raise
