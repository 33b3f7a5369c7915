"""Stores that leave out one precaution: the simulated power cuts must show it."""

from collections import Counter

import pytest
from cases import each
from powercuts import SCENARIOS, LostError, cut_everywhere, prepared, run, steps

from tinytrain.firmware_sim.flash.file_systems import LAYOUTS
from tinytrain.firmware_sim.flash.flash import Flash, FlashFile
from tinytrain.store.files import StoreFiles
from tinytrain.store.record import DELTA_TEMPORARY, RECORD_TEMPORARY, RECORDS, Record, Slot, encode_record
from tinytrain.store.slots import Slots


def unsynced_content(patch):
    patch.setattr(FlashFile, "sync", lambda self: None)


def unsynced_folder(patch):
    patch.setattr(Flash, "sync", lambda self: None)


def record_first(patch):
    def commit(self, data):
        state = self._look(strict=False)
        slot = Slot.of(data, state.record.generation + 1)
        self.files.switch(state.record.commit(slot))
        self.files.write_delta(slot, data)

    patch.setattr(Slots, "commit", commit)


def one_folder_sync_for_both(patch):
    def write_delta(self, slot, data):
        with self.folder.create(DELTA_TEMPORARY) as file:
            file.write(data)
            file.sync()
        self.folder.rename(DELTA_TEMPORARY, slot.name)

    patch.setattr(StoreFiles, "write_delta", write_delta)
    switched_without_sync(patch)


def written_in_place(patch):
    def publish(self, temporary, name, data):
        with self.folder.create(name) as file:
            file.write(data)
            file.sync()
        self.folder.sync()

    patch.setattr(StoreFiles, "_publish", publish)
    patch.setattr(Record, "name", RECORDS[0])


def one_record(patch):
    patch.setattr(Record, "name", RECORDS[0])


def swept_too_early(patch):
    def switch(self, record):
        self.sweep(record.files())
        self._publish(RECORD_TEMPORARY, record.name, encode_record(record))

    patch.setattr(StoreFiles, "switch", switch)


def slots_written_over(patch):
    patch.setattr(Slot, "name", property(lambda slot: f"tinytrain-{slot.generation % 2 + 1}.delta"))


def swept_without_sync(patch):
    def sweep(self, needed):
        for name in self.folder.names():
            if name.endswith(".delta") and name not in needed:
                self.folder.remove(name)

    patch.setattr(StoreFiles, "sweep", sweep)


def switched_without_sync(patch):
    def switch(self, record):
        self._publish(RECORD_TEMPORARY, record.name, encode_record(record))
        self.sweep(record.files())

    patch.setattr(StoreFiles, "switch", switch)


EVERYWHERE = set(LAYOUTS)
UNORDERED = EVERYWHERE - {"ordered-journal"}
MUTANTS = {
    "content is not synced": (unsynced_content, EVERYWHERE),
    "the folder is not synced": (unsynced_folder, EVERYWHERE),
    "the record is written first": (record_first, EVERYWHERE),
    "delta and record share one sync of the folder": (one_folder_sync_for_both, UNORDERED),
    "files are written in place": (written_in_place, EVERYWHERE),
    "there is one record instead of two": (one_record, {"fat"}),
    "the old delta is removed before the switch": (swept_too_early, EVERYWHERE),
    "a slot in use is written over": (slots_written_over, EVERYWHERE),
}


def caught(layout):
    """Whether the power cuts show that something is lost."""
    try:
        for name in SCENARIOS:
            files, change = prepared(layout, name)
            for _ in cut_everywhere(layout, Flash(layout, files), change, Counter()):
                pass
    except LostError:
        return True
    except Exception as error:  # a mutant may also stumble over what it left
        return "store-damaged" in str(error)
    return False


@each("mutant", MUTANTS)
def test_a_store_that_does_less_is_caught(mutant, monkeypatch):
    break_it, where = MUTANTS[mutant]
    break_it(monkeypatch)
    assert {name for name, layout in LAYOUTS.items() if caught(layout)} == where


@pytest.mark.parametrize(
    ("break_it", "where"), [(swept_without_sync, "unordered-metadata"), (switched_without_sync, "fat")]
)
def test_trusting_what_a_killed_process_left_is_caught(break_it, where, monkeypatch):
    break_it(monkeypatch)
    layout = LAYOUTS[where]
    assert not caught(layout), "power cuts alone do not show it"
    with pytest.raises(LostError):
        for name in SCENARIOS:
            files, change = prepared(layout, name)
            flash = Flash(layout, files)
            run(layout, flash, change)
            for moment in flash.moments:
                for go_on in ("start", "commit 4"):
                    for _ in cut_everywhere(layout, flash.killed(moment), steps(go_on), Counter()):
                        pass
