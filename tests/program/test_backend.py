"""A backend says which kernels a program may call, and the dtypes of activations and weights."""

from dataclasses import replace

import pytest
import toynets

from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Resources
from tinytrain.program.backend import FLOAT32, Backend
from tinytrain.program.calls import Call, Weight
from tinytrain.program.checker import ProgramError, check_call, check_segment
from tinytrain.program.compile import compile_training
from tinytrain.program.segments import SegmentBank

NETWORK = toynets.toy("blocks")
TASK, RESOURCES = TaskShape(9, 3, 4), Resources(0, 1, 1, 9, 9)
ALL, NONE = (toynets.recipe(updates) for updates in (toynets.everything(NETWORK), ()))


def without(kernel):
    return replace(
        FLOAT32, name="small", signatures={k: s for k, s in FLOAT32.signatures.items() if k != kernel}
    )


def halved(signature):
    """`signature` with float16 for float32, biases apart."""
    arrays = {
        name: replace(a, dtype="float16") if a.dtype == "float32" and name != "b" else a
        for name, a in signature.arrays.items()
    }
    return replace(signature, arrays=arrays)


HALF = Backend("half", {k: halved(s) for k, s in FLOAT32.signatures.items()}, "float16", "float16")


@pytest.mark.parametrize("kernel", ["depthwise_grad_weight", "pack_mask", "transpose"])
def test_a_program_that_needs_a_kernel_that_the_backend_lacks_is_not_compiled(kernel):
    calls = SegmentBank(NETWORK, ALL).segments([("backward", 1)])["backward", 1].calls
    needed = kernel in {call.kernel for call in calls}
    assert needed == (kernel != "transpose")
    bank = SegmentBank(NETWORK, ALL, backend=without(kernel))
    if needed:
        with pytest.raises(ProgramError, match=f"backend small has no kernel {kernel}"):
            compile_training(NETWORK, ALL, RESOURCES, TASK, bank)
    else:
        assert compile_training(NETWORK, ALL, RESOURCES, TASK, bank).nbytes


def test_a_backend_that_cannot_train_compiles_what_trains_nothing():
    bank = SegmentBank(NETWORK, NONE, backend=without("pack_mask"))
    assert compile_training(NETWORK, NONE, RESOURCES, TASK, bank).nbytes


def test_a_call_of_no_kernel_is_refused():
    with pytest.raises(ProgramError, match="no kernel depthwise_sideways"):
        Call("depthwise_sideways", ())


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
