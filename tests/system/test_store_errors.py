"""The store on a file system that fails: exit code 6, the old delta in use, nothing left behind."""

import errno
import itertools

import pytest
from cases import each
from cutimages import Images
from powercuts import SCENARIOS, prepared, run, seen, steps, strays

from tinytrain.base.errors import StorageError
from tinytrain.base.files import REMEDIES
from tinytrain.firmware_sim.flash.file_systems import LAYOUTS
from tinytrain.firmware_sim.flash.flash import Flash
from tinytrain.store.record import RECORDS
from tinytrain.store.slots import Slots

ERRNOS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EINTR)
CHANGES = ("create", "write", "sync", "rename", "remove")
EXPLICIT = [name for name in SCENARIOS if "start" not in name]
STARTS = [name for name in SCENARIOS if "start" in name]
pytestmark = pytest.mark.usefixtures("records_read_once")


def failures(layout, files, change, *, for_good):
    """(errno, flash that fails with it) for every operation of `change` that changes something."""
    flash = Flash(layout, files)
    operations = []
    flash.fail = lambda number, operation: operations.append(operation)
    run(layout, flash, change)
    at = [number for number, operation in enumerate(operations) if operation.startswith(CHANGES)]
    for number, error in itertools.product(at, ERRNOS):

        def fail(n, operation, at=number, error=error):
            return error if operation.startswith(CHANGES) and (n >= at if for_good else n == at) else None

        yield error, Flash(layout, files, fail)


def found(layout, flash):
    """What the next process finds."""
    end = flash.moments[-1]
    return seen(layout, end.medium.after(end.pending, layout.fill).files())


def outcome(layout, files, change):
    flash = Flash(layout, files)
    run(layout, flash, change)
    return found(layout, flash)


def check_next_start(layout, flash):
    """After the error is gone: a start removes what was left behind."""
    flash.fail = None
    state = Slots(flash).start()
    assert not state.warnings and not strays(flash.names(), state.record)


@each("name", EXPLICIT)
@each("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_an_operation_that_fails_once_leaves_the_old_state(layout, name):
    files, change = prepared(layout, name)
    old, new = seen(layout, files), outcome(layout, files, change)
    for error, flash in failures(layout, files, change, for_good=False):
        try:
            run(layout, flash, change)
        except StorageError as caught:
            assert caught.code == "write-failed" and REMEDIES.get(error, "run again") in str(caught)
            assert found(layout, flash) == old
        else:
            assert found(layout, flash) == new, "only sweeping may fail in silence"
        for image in Images(layout, flash.moments[-1]):
            assert seen(layout, image) in (old, new)
        check_next_start(layout, flash)


@each("name", EXPLICIT)
@each("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_a_medium_that_fails_for_good_keeps_the_old_or_the_new_state(layout, name):
    files, change = prepared(layout, name)
    old, new = seen(layout, files), outcome(layout, files, change)
    refused = 0
    for _, flash in failures(layout, files, change, for_good=True):
        try:
            run(layout, flash, change)
        except StorageError as error:
            refused += 1
            assert error.exit_code == 6 and "\n" not in str(error)
        for image in Images(layout, flash.moments[-1]):
            assert seen(layout, image) in (old, new)
        check_next_start(layout, flash)
    assert refused


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("for_good", [False, True])
def test_a_start_that_cannot_be_noted_uses_the_delta_before(name, for_good):
    layout = LAYOUTS["fat"]
    files, change = prepared(layout, name)
    old, new = seen(layout, files), outcome(layout, files, change)
    for error, flash in failures(layout, files, change, for_good=for_good):
        state = Slots(flash).start()
        noted = found(layout, flash)
        assert noted in (old, new)
        if state.warnings and "could" in state.warnings[-1]:
            assert state.record.confirmed and state.record.current.generation == 1
            assert for_good or noted == old
        else:
            assert noted == new and state.data == new[1], error
        flash.fail = None
        Slots(flash).start()


@pytest.mark.parametrize("error", ERRNOS)
def test_a_record_that_cannot_be_read_for_a_moment_is_not_skipped_by_a_change(error):
    layout = LAYOUTS["ordered-journal"]
    files, _ = prepared(layout, "a commit over a trial")  # generation 2 on trial
    for change, name in itertools.product(("confirm", "roll_back"), RECORDS):

        def fail(number, operation, name=name):
            return error if operation == f"read {name}" else None

        flash = Flash(layout, files, fail)
        with pytest.raises(StorageError):
            run(layout, flash, steps(change))
        assert found(layout, flash) == seen(layout, files)


@each("error", ERRNOS)
def test_a_delta_that_cannot_be_read_for_a_moment_is_passed_over_by_a_start_and_by_no_change(error):
    """To confirm or to go back is meant for the newest delta, not for the one that happens to be readable."""
    layout = LAYOUTS["ordered-journal"]
    files, _ = prepared(layout, "a commit over a trial")  # generation 2 on trial

    def fail(number, operation):
        return error if operation == "read tinytrain-2.delta" else None

    state = Slots(Flash(layout, files, fail)).look()
    assert state.record.current.generation == 1 and state.warnings == ("generation 2 is damaged",)
    for change in ("confirm", "roll_back"):
        flash = Flash(layout, files, fail)
        with pytest.raises(StorageError):
            run(layout, flash, steps(change))
        assert found(layout, flash) == seen(layout, files)
