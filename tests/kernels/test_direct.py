"""Direct entry points of kernels: the same bits for every layout, and a fallback without machine code."""

import itertools
import logging

import numpy as np
import pytest
from kernelarrays import Output, layouts
from kernelcases import CASES
from toynets import rng

from tinytrain import kernels
from tinytrain.kernels import fallback, reference
from tinytrain.kernels.dispatch.direct import direct, product
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


@pytest.mark.slow
def test_products_of_every_layout_are_those_of_whole_matrices(compiled):
    """By BLAS, and by the portable product, which has code for each layout."""
    from tinytrain.kernels.dense import ordered_matmul

    r = rng("layouts")
    x, w = (r.standard_normal(shape).astype("f") for shape in ((5, 6), (6, 4)))
    ordered = guarded("matmul", ordered_matmul, reference.matmul, set())
    for kernel, a, b in itertools.product((compiled.matmul, ordered), layouts(x), layouts(w)):
        for y in (np.full((5, 4), np.nan, np.float32), np.full((5, 9), np.nan, np.float32)[:, 3:7]):
            function, given = direct(kernel, (y, a, b))
            function(*given)
            np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-6)
    assert len(ordered_matmul.signatures) >= 18


def test_np_dot_gets_whole_matrices_and_no_others():
    """`np.dot` would copy columns of a wider matrix as input, and refuses them as output."""
    y, x, w = np.zeros((5, 4), "f"), np.zeros((5, 6), "f"), np.zeros((6, 4), "f")
    assert [product((y, a, w))[0] for a in layouts(x)] == [np.dot, np.dot, np.matmul, np.dot]
    assert [product((a, x, w))[0] for a in layouts(y)] == [np.dot, np.matmul, np.matmul, np.matmul]


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
