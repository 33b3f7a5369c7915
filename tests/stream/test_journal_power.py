"""What is learnt, without power: whenever it goes, nothing acknowledged is lost and nothing counts twice."""

import errno
import random

import pytest
from cases import quick
from journalcuts import SCENARIOS, LostError, add, cut_everywhere, do, entry, learnt, prepared
from powercuts import different

from tinytrain.base.errors import TinytrainError
from tinytrain.firmware_sim.flash.file_systems import LAYOUTS
from tinytrain.firmware_sim.flash.flash import Flash, FlashFile
from tinytrain.store.files import StoreFiles
from tinytrain.store.record import JOURNAL_TEMPORARY, Slot
from tinytrain.store.slots import Slots

everywhere = pytest.mark.parametrize("layout", quick(LAYOUTS.values()), ids=list(LAYOUTS))
every_change = pytest.mark.parametrize("name", SCENARIOS)


def cut_once(layout, name):
    _, change, expected = SCENARIOS[name]
    flash = Flash(layout, prepared(layout, name))
    images = list(cut_everywhere(layout, flash, do(change)))
    assert learnt(Slots(Flash(layout, images[-1]))) == tuple(expected.split())
    return different(images)


@everywhere
@every_change
def test_a_cut_leaves_what_was_learnt_before_or_with_the_change(layout, name):
    assert len(cut_once(layout, name)) > 1


@everywhere
@every_change
def test_a_cut_while_going_on_after_a_cut_does_too(layout, name):
    for files in cut_once(layout, name):
        for go_on in ("learn z", "start", "fold"):
            for _ in cut_everywhere(layout, Flash(layout, files), do(go_on)):
                pass


@everywhere
@every_change
def test_a_cut_after_the_process_was_killed_does_too(layout, name):
    flash = Flash(layout, prepared(layout, name))
    do(SCENARIOS[name][1])(Slots(flash))
    for moment in flash.moments:
        for go_on in ("learn z", "fold"):
            for _ in cut_everywhere(layout, flash.killed(moment), do(go_on)):
                pass


@everywhere
def test_what_an_hour_of_cuts_leaves_is_all_that_was_acknowledged(layout):
    """Corrections, folds and starts at random, each with a cut at a random place: a model keeps the books."""
    draw, files = random.Random(layout.name), prepared(layout, "the first correction")
    known = learnt(Slots(Flash(layout, files)))
    for number in range(12):
        step = draw.choice(("learn", "learn", "fold", "start"))
        change = do(f"learn {number}" if step == "learn" else step)
        files = draw.choice(list(cut_everywhere(layout, Flash(layout, files), change)))
        now = learnt(Slots(Flash(layout, files)))
        assert now[: len(known)] == known and len(now) <= len(known) + 1
        known = now


@pytest.mark.parametrize("name", [name for name, steps in SCENARIOS.items() if "both b" in steps[0]])
@everywhere
def test_what_a_trial_learnt_is_known_once_to_the_delta_before_it_wherever_power_went(layout, name):
    for files in cut_once(layout, name):
        slots = Slots(Flash(layout, files))
        if not slots.look().record.confirmed:
            do("both z", "roll_back")(slots)
        found = learnt(slots)
        assert found[0] == "base" and [n for n in found if n in "bc"] == sorted({*found} & {*"bc"})
        assert "b" in found


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@everywhere
def test_a_correction_that_fails_at_any_operation_is_not_learnt_and_the_next_one_is(layout, number):
    files, failed, done = prepared(layout, "a correction more"), 0, 0
    while not done:
        flash = Flash(layout, files, lambda n, _, failing=failed: number if n == failing else None)
        try:
            add(Slots(flash), entry("b"))
            done = 1
        except TinytrainError as error:
            failed += 1
            assert error.exit_code in (3, 6)
        flash.fail = None
        assert learnt(Slots(flash)) == ("base", "a", "b")[: 2 + done]
        do("learn c")(Slots(flash))
        assert learnt(Slots(flash)) == (*("base", "a", "b")[: 2 + done], "c")
    assert failed >= 8


def unsynced_content(patch):
    patch.setattr(FlashFile, "sync", lambda self: None)


def appended_without_folder(patch):
    original = StoreFiles.append

    def append(self, slot, journal, entry):
        with patch.context() as inner:
            if journal.end:
                inner.setattr(self.folder, "sync", lambda: None)
            return original(self, slot, journal, entry)

    patch.setattr(StoreFiles, "append", append)


def folded_in_two_steps(patch):
    """The journal begins afresh after the switch, by its generation instead of by a delta of its own."""

    def fold(slots, place, data):
        slots.files.write_delta(place.slot, data)
        slots.folder.remove(place.slot.journal)

    patch.setattr(Slots, "fold", fold)


def journal_of_any_delta(patch):
    patch.setattr(Slot, "journal", property(lambda slot: "tinytrain-1.journal"))
    patch.setattr("tinytrain.store.journal.header", lambda sha256: bytes(52))
    patch.setattr("tinytrain.store.files.header", lambda sha256: bytes(52))
    patch.setattr("tinytrain.store.journal._checksum", lambda content, sha256, place: bytes(16))


MUTANTS = {
    "content is not synced": unsynced_content,
    "a fold writes over the delta in use": folded_in_two_steps,
    "a journal goes on from any delta": journal_of_any_delta,
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_journal_with_one_precaution_less_is_caught(mutant, monkeypatch):
    MUTANTS[mutant](monkeypatch)
    with pytest.raises((AssertionError, TinytrainError)):
        for layout in LAYOUTS.values():
            for name in SCENARIOS:
                cut_once(layout, name)


def test_a_journal_whose_name_a_killed_process_left_unsynced_is_synced_before_it_is_trusted(monkeypatch):
    appended_without_folder(monkeypatch)
    with pytest.raises(LostError):
        for layout in LAYOUTS.values():
            flash = Flash(layout, prepared(layout, "the first correction"))
            do("learn a")(Slots(flash))
            for moment in flash.moments:
                for _ in cut_everywhere(layout, flash.killed(moment), do("learn z")):
                    pass


def test_a_temporary_journal_is_swept_by_the_next_start():
    layout = LAYOUTS["ordered-journal"]
    files = {**prepared(layout, "a correction more"), JOURNAL_TEMPORARY: b"x", "tinytrain-77.journal": b"y"}
    flash = Flash(layout, files)
    Slots(flash).start()
    assert not {JOURNAL_TEMPORARY, "tinytrain-77.journal"} & set(flash.names())
    assert learnt(Slots(flash)) == ("base", "a")
