"""Every kernel stays inside its arrays: 200 random shapes each, canaries around all of them.

``TINYTRAIN_KERNEL_SHAPES=5000`` takes that many shapes.
"""

import os
import zlib

import numpy as np
import pytest
from cases import each
from kernelarrays import NOTHING, Guarded, Output
from kernelcases import CASES

from tinytrain import kernels
from tinytrain.kernels import reference

SHAPES = int(os.environ.get("TINYTRAIN_KERNEL_SHAPES", "200"))
compiled = pytest.fixture(lambda: kernels.load("numba"), scope="module")
plain = pytest.fixture(lambda: kernels.load("numpy"), scope="module")


def test_every_kernel_has_a_case():
    assert CASES.keys() == set(kernels.NAMES)


def placed(arguments, r) -> tuple[list, list[Guarded]]:
    """The arguments, with every array between canaries at an offset of 0 to 15 elements."""
    values, guards = [], []
    for argument in arguments:
        array = argument.start if isinstance(argument, Output) else argument
        if isinstance(array, np.ndarray):
            guards.append(Guarded(array, int(r.integers(16))))
            array = guards[-1].array
        values.append(array)
    return values, guards


def agree(found: np.ndarray, wanted: np.ndarray, compared: str) -> None:
    if compared == "codes":
        assert np.abs(found.astype(int) - wanted).max() <= 1
    elif compared == "equal":
        assert np.array_equal(found, wanted)
    elif compared == "moments":
        pair = (reference.from_bfloat16(bits) for bits in (found, wanted))
        np.testing.assert_allclose(*pair, rtol=0.02, atol=1e-6)
    elif compared == "close":
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def check(kernel, reference, arguments, r) -> None:
    """One call: canaries and inputs are unchanged, outputs are complete and equal to the reference."""
    values, guards = placed(arguments, r)
    wanted = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    assert kernel(*values) == reference(*wanted)
    assert all(guard.untouched for guard in guards), "a canary changed"
    for argument, value, want in zip(arguments, values, wanted, strict=True):
        if isinstance(argument, Output):
            agree(value, want, argument.compared)
            if argument.fresh and value.dtype == np.float32:
                assert np.isfinite(value).all(), "not written, or computed from memory outside of the inputs"
        elif isinstance(argument, np.ndarray):
            assert value.tobytes() == argument.tobytes(), "an input changed"


@pytest.mark.parametrize("name", kernels.NAMES)
def test_no_canary_changes_and_every_output_is_written_whole(compiled, plain, name):
    for number in range(SHAPES):
        r = np.random.default_rng([zlib.crc32(name.encode()), number])
        check(getattr(compiled, name), getattr(plain, name), CASES[name](r), r)


def stray(change):
    """A kernel `copy` that also calls `change(y, x)`, which it must not do."""

    def kernel(y, x):
        y[...] = x
        change(y, x)

    return kernel


def beyond(array, at):
    """One element outside of `array`."""
    return np.lib.stride_tricks.as_strided(array[at:], (2,), array.strides)[1:]


STRAYS = {
    "behind its output": lambda y, x: beyond(y, len(y) - 1).fill(1),
    "to its input": lambda y, x: x.fill(0),
    "what lies behind its input": lambda y, x: y.__setitem__(-1, beyond(x, len(x) - 1)[0]),
    "nothing to its last element": lambda y, x: y[-1:].view(np.uint8).fill(NOTHING),
}


@each("what", STRAYS)
def test_a_kernel_that_strays_is_caught(what):
    r = np.random.default_rng(0)
    with pytest.raises(AssertionError):
        check(stray(STRAYS[what]), reference.copy, CASES["copy"](r), r)
