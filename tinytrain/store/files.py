"""The files of a store, checked on reading and written in an order that survives power cuts.

A new file is written under a temporary name, synced and renamed, and the folder is synced. Every file that is
read is checked against a SHA-256. The methods raise OSError if the file system does.
"""

import contextlib

from tinytrain.store.folder import Folder
from tinytrain.store.journal import HEADER, MAX_JOURNAL, Entry, Journal, decode_journal, framed, header
from tinytrain.store.record import (
    DELTA_NAME,
    DELTA_TEMPORARY,
    JOURNAL_NAME,
    JOURNAL_TEMPORARY,
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

ASIDE = ".damaged"  # what the name of a journal ends with that cannot be read


class StoreFiles:
    """Records and deltas in `folder`; other files there are left alone."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self._appended: tuple[str, int] | None = None  # the journal of the last append, and its end

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

    def journal(self, slot: Slot) -> Journal:
        """What was learnt since the delta in `slot` was committed. Raises OSError if it cannot be read."""
        try:
            # Entries of a dropped delta may go beyond what is appended one by one.
            return decode_journal(self.folder.read(slot.journal, 2 * MAX_JOURNAL), slot.sha256)
        except FileNotFoundError:
            return Journal()

    def append(self, slot: Slot, journal: Journal, entry: Entry) -> int:
        """Add `entry` to the `journal` of `slot`; on return it is on the medium. Returns where it ends.

        After an error the journal is as before, or ends with a torn entry. A journal that cannot be read is
        kept under another name.
        """
        data = framed(entry, slot.sha256, journal.end or HEADER)
        if not journal.end:
            if journal.headless:
                self.folder.rename(slot.journal, slot.journal + ASIDE)
            self._publish(JOURNAL_TEMPORARY, slot.journal, header(slot.sha256) + data)
            return HEADER + len(data)
        ours = self._appended == (slot.journal, journal.end)
        if not ours:
            # A killed process may have left the name of the journal, or the record of its delta, unsynced.
            self.folder.sync()
        with self.folder.append(slot.journal) as file:
            try:
                if not ours:
                    file.sync()  # and its content: nothing may be there behind a gap
                if journal.torn:
                    file.truncate(journal.end)
                file.write(data)
                file.sync()
            except BaseException:
                with contextlib.suppress(OSError):
                    file.truncate(journal.end)
                raise
        end = journal.end + len(data)
        self._appended = slot.journal, end
        return end

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
        with contextlib.suppress(OSError):
            # Deltas go before their journals: who reads the journal first never sees a delta without its own.
            unneeded = [n for n in self.folder.names() if _is_ours(n) and n not in needed]
            if unneeded:
                # A killed process may have left the record that does not need them unsynced. Sync it first,
                # because a power cut could bring back the old record, which needs them.
                self.folder.sync()
            for name in unneeded:
                with contextlib.suppress(OSError):  # a folder with content stays, the other files go
                    self.folder.remove(name)

    def remove_aside(self) -> None:
        """Remove the journals that `append` has kept under another name."""
        for name in self.folder.names():
            if name.endswith(ASIDE) and JOURNAL_NAME.fullmatch(name.removesuffix(ASIDE)):
                self.folder.remove(name)
        self.folder.sync()

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


def _is_ours(name: str) -> bool:
    """Whether this is a file that the store may remove."""
    temporary = (DELTA_TEMPORARY, JOURNAL_TEMPORARY, RECORD_TEMPORARY)
    return name in temporary or bool(DELTA_NAME.fullmatch(name) or JOURNAL_NAME.fullmatch(name))
