"""A backend says what is called, in which dtypes, and what training, deltas and predictions make of it."""

from dataclasses import replace
from typing import ClassVar

import pytest
import toynets
from programcheck import ProgramError, check_call, check_segment
from toydevices import ONE

from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import AUTO, Budget, TaskShape
from tinytrain.plan.recipe import Resources
from tinytrain.program.backends import SUMMARIES
from tinytrain.program.backends.float32 import Float32
from tinytrain.program.backends.registry import BACKENDS, FLOAT32, INT8
from tinytrain.program.backends.working_copy import WorkingCopy
from tinytrain.program.calls import Call, Weight
from tinytrain.program.compile import compile_training
from tinytrain.program.segments import SegmentBank
from tinytrain.runtime.embedder import Embedder

NETWORK = toynets.toy("blocks")
TASK, RESOURCES = TaskShape(9, 3, 4), Resources(0, 1, 9, 9)
ALL, NONE = (toynets.recipe(updates) for updates in (toynets.everything(NETWORK), ()))


class Small(Float32):
    """Float32 without one kernel."""

    name = "small"

    def __init__(self, kernel):
        self.signatures = {k: s for k, s in FLOAT32.signatures.items() if k != kernel}


def halved(signature):
    """`signature` with float16 for float32, biases apart."""
    arrays = {
        name: replace(a, dtype="float16") if a.dtype == "float32" and name != "b" else a
        for name, a in signature.arrays.items()
    }
    return replace(signature, arrays=arrays)


class Half(Float32):
    name, dtype, weight_form = "half", "float16", "float16"
    signatures: ClassVar = {k: halved(s) for k, s in FLOAT32.signatures.items()}


HALF = Half()


@pytest.mark.parametrize("kernel", ["depthwise_grad_weight", "pack_mask", "transpose"])
def test_a_program_that_needs_a_kernel_that_the_backend_lacks_is_not_compiled(kernel):
    calls = SegmentBank(NETWORK, ALL).segments([("backward", 1)])["backward", 1].calls
    needed = kernel in {call.kernel for call in calls}
    assert needed == (kernel != "transpose")
    bank = SegmentBank(NETWORK, ALL, backend=Small(kernel))
    if needed:
        with pytest.raises(ProgramError, match=f"backend small has no kernel {kernel}"):
            compile_training(NETWORK, ALL, RESOURCES, TASK, bank)
    else:
        assert compile_training(NETWORK, ALL, RESOURCES, TASK, bank).nbytes


def test_every_backend_has_a_line_of_help():
    assert [*SUMMARIES] == [AUTO, *BACKENDS]


@pytest.mark.parametrize("kernel", ["product_codes", "gather_codes", "depthwise_grad_weight_codes"])
def test_kernels_of_codes_are_those_of_int8_alone(kernel):
    assert Call(kernel, (), backend=INT8).signature is INT8.signature(kernel)
    with pytest.raises(ProgramError, match=f"backend float32 has no kernel {kernel}"):
        Call(kernel, (), backend=FLOAT32)


def test_a_backend_that_cannot_train_compiles_what_trains_nothing():
    bank = SegmentBank(NETWORK, NONE, backend=Small("pack_mask"))
    assert compile_training(NETWORK, NONE, RESOURCES, TASK, bank).nbytes


def test_a_call_of_no_kernel_is_refused():
    with pytest.raises(ProgramError, match="no kernel depthwise_sideways"):
        Call("depthwise_sideways", ())


class LostCopy(WorkingCopy):
    """The first weight of each output channel is 0, whatever is written there."""

    def _fill(self, network, i, part, out):
        super()._fill(network, i, part, out)
        self.lose(out, part)

    def settle(self):
        for i, part in self.own:
            self.lose(self._parts[i, part], part)

    def lose(self, values, part):
        if part == "weight":
            values[0] = 0


class Lost(Float32):
    name, copy = "lost", LostCopy

    def stored(self, network):
        return {"arithmetic": self.name}


def test_a_row_of_the_registry_is_all_that_a_backend_needs(monkeypatch):
    """The copy that fills, settles and is read decides what is trained, stored and predicted."""
    monkeypatch.setitem(BACKENDS, "lost", Lost())
    budget, episode = Budget(10**6, precision="lost"), toy_episode()
    delta = adapt(toy_network(), episode, budget, "last_layer", device=ONE, force=True).delta
    (trained,) = delta.slices
    assert delta.precision == "lost" and not trained.values[0].any() and trained.values[1:].all()
    exact = Embedder(toy_network(), replace(delta, arithmetic=None)).embed(episode.support)
    assert Embedder(toy_network(), delta).embed(episode.support).tobytes() != exact.tobytes()


@pytest.mark.parametrize("kind, n", [("prefix", 1), ("embed", 1), ("embed", 2)])
def test_activations_and_weights_have_the_dtypes_of_the_backend(kind, n):
    banks = (SegmentBank(NETWORK, NONE, backend=b) for b in (FLOAT32, HALF))
    usual, half = (bank.segments([(kind, n)])[kind, n] for bank in banks)
    check_segment(half)
    assert {buffer.dtype for buffer in half.offsets} == {"float16"}
    assert {a.dtype for call in half.calls for a in call.args if isinstance(a, Weight)} == {"float16"}
    assert half.nbytes < usual.nbytes
    assert half.all_macs == usual.all_macs
    with pytest.raises(ProgramError, match="float16, not float32"):
        check_call(replace(half.calls[-1], backend=FLOAT32), "here")


def test_features_of_the_frozen_part_are_activations():
    banks = [SegmentBank(NETWORK, NONE, backend=b) for b in (FLOAT32, HALF)]
    assert [bank.externals["features"].dtype for bank in banks] == ["float32", "float16"]
    assert {bank.externals["input"].dtype for bank in banks} == {"uint8"}
