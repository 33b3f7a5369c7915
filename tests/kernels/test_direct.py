"""Direct entry points of kernels: the same bits for every layout, and a fallback without machine code."""

import logging

import numpy as np
import pytest
from kernelarrays import Output
from kernelcases import CASES
from toynets import rng

from tinytrain import kernels
from tinytrain.kernels import fallback, reference
from tinytrain.kernels.dispatch.direct import direct
from tinytrain.kernels.fallback import guarded


@pytest.fixture(scope="module")
def compiled():
    """Kernels as a run gets them: only these have direct entry points."""
    pytest.importorskip("numba")
    return kernels.load("auto")


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_direct_entry_point_of_a_kernel_gives_the_same_bits(compiled, name):
    kernel, arguments = getattr(compiled, name), CASES[name](rng("direct", name))
    outputs = []
    for entry in (False, True):
        values = tuple(a.start.copy() if isinstance(a, Output) else a for a in arguments)
        function, given = direct(kernel, values) if entry else (kernel, values)
        assert (function is not kernel) == entry
        function(*given)
        outputs.append([v for v, a in zip(values, arguments, strict=True) if isinstance(a, Output)])
    assert outputs[0]
    for a, b in zip(*outputs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_function_without_a_direct_entry_point_is_returned():
    assert direct(reference.pool, (1, 2)) == (reference.pool, (1, 2))


def test_the_direct_entry_point_of_a_kernel_without_code_is_the_reference(monkeypatch, caplog):
    class Broken:
        def code(self, arguments):
            raise RuntimeError("no such target")

    monkeypatch.setattr(fallback, "TOLD", set())
    replaced = set()
    with caplog.at_level(logging.WARNING, "tinytrain"):
        bound, arguments = direct(guarded("pool", Broken(), lambda a, b: a + b, replaced), (1, 2))
    assert bound(*arguments) == 3 and replaced == {"pool"}
    assert "pool cannot be compiled" in caplog.text
