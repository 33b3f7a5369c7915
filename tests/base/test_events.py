"""Events of long work: their values, and the end of the work by whoever hears them."""

import json
import pickle
from types import SimpleNamespace

import pytest

from tinytrain.base.errors import CancelledError
from tinytrain.base.events import Cancellable, Note, Progress
from tinytrain.base.progress import told, told_compiling
from tinytrain.kernels import fallback
from tinytrain.kernels.compile_cache.watch import Watch


def test_a_step_is_told_with_its_loss_and_one_that_is_no_number_is_no_loss_in_json():
    said = []
    told(said.append)("training", 3, 50, 0.75)
    told(said.append)("images", 1, 2, None)
    assert said == [Progress("training", 3, 50, 0.75), Progress("images", 1, 2)]
    assert [event.words() for event in said] == ["training 3/50  loss 0.750", "images 1/2"]
    assert said[0].facts() == {"event": "progress", "stage": "training", "done": 3, "total": 50, "loss": 0.75}
    for loss in (float("nan"), float("inf")):
        assert json.dumps(Progress("training", 1, 2, loss).facts(), allow_nan=False).endswith('"loss": null}')


def test_kernels_that_are_compiled_are_told_as_progress():
    said, watch = [], Watch()
    with watch.told(told_compiling(said.append)):
        watch.expect(["pool", "copy"])
        for kernel in ("pool", "copy"):
            watch.begin(kernel)
            watch.end()
    assert said == [Progress("compiling kernels", 1, 2), Progress("compiling kernels", 2, 2)]


def test_what_is_cancelled_ends_at_its_next_progress_and_everything_else_is_still_told():
    said = []
    tell = Cancellable(said.append)
    tell(Progress("training", 1, 2))
    tell.cancelled.set()
    tell(Note("a camera is gone"))
    with pytest.raises(CancelledError) as raised:
        tell(Progress("training", 2, 2))
    assert said == [Progress("training", 1, 2), Note("a camera is gone")]
    assert str(pickle.loads(pickle.dumps(raised.value))) == "cancelled before it was done"
    assert raised.value.facts()["code"] == "interrupted" and raised.value.exit_code == 130


def test_who_cancels_while_a_kernel_is_compiled_has_not_replaced_it_by_numpy():
    watch, replaced, cancelled = Watch(), set(), Cancellable(print)

    def code(arguments):
        watch.begin("pool")
        return max

    call = fallback.guarded("pool", SimpleNamespace(code=code), min, replaced)
    cancelled.cancelled.set()
    with watch.told(told_compiling(cancelled)), pytest.raises(CancelledError):
        call(1, 2)
    assert call(1, 2) == 2 and not replaced
