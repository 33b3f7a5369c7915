"""Native call sequences: the same bits, the same order, without Python's lock."""

import ctypes
import gc
import threading
import time
import weakref

import numpy as np
import pytest
from cases import each
from kernelarrays import Output, layouts
from kernelcases import CASES
from toynets import rng

from tinytrain import kernels
from tinytrain.kernels import blas, fallback, kernel
from tinytrain.kernels.dispatch import direct, native_calls, sgemm
from tinytrain.kernels.dispatch.direct import product
from tinytrain.kernels.dispatch.native_calls import NativeSequence, join_native, native_support
from tinytrain.kernels.kernel import Kernel
from tinytrain.runtime import bind as binding

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def compiled():
    return kernels.load("auto")


@pytest.fixture
def products():
    if sgemm.sgemm() is None:
        pytest.skip("numpy's BLAS does not export its function")
    assert native_support()["products"]


def bound(kernel, *arguments):
    return direct.direct(kernel, arguments)


def forget(monkeypatch):
    """Clear what is cached about this machine."""
    for cached in (native_calls._tools, native_calls._runner, native_calls._blas):
        monkeypatch.setattr(native_calls, cached.__name__, cached.__wrapped__)


def additions(compiled, count, total=None, x=None):
    """`count` calls that add 1 to `total`."""
    total = np.zeros(4, np.float32) if total is None else total
    x = np.ones(4, np.float32) if x is None else x
    return total, [bound(compiled.accumulate, total, x) for _ in range(count)]


# ---- the same bits -------------------------------------------------------------------------------


def test_compiled_kernels_are_called_natively_here():
    assert native_support()["kernels"]


@each("name", sorted(CASES))
def test_every_kernel_gives_the_same_bits_in_a_native_sequence(compiled, name):
    arguments, outputs = CASES[name](rng("stretch", name)), []
    for together in (False, True):
        values = tuple(a.start.copy() if isinstance(a, Output) else a for a in arguments)
        total, (call,) = additions(compiled, 1)
        calls = [bound(getattr(compiled, name), *values), call]
        if together:
            calls = join_native(calls)
            assert len(calls) == (1 if name != "matmul" or native_support()["products"] else 2)
        binding.run(calls)
        assert total.tolist() == [1] * 4
        outputs.append([v for v, a in zip(values, arguments, strict=True) if isinstance(a, Output)])
    for a, b in zip(*outputs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("m,k,n", [(2, 2, 2), (5, 6, 4), (33, 48, 17), (256, 64, 160)])
def test_products_of_every_layout_have_the_bits_of_numpy(products, m, k, n):
    r = rng("layouts", m)
    x, w = (r.standard_normal(shape).astype("f") for shape in ((m, k), (k, n)))
    for a in layouts(x):
        for b in layouts(w):
            for y in (np.full((m, n), np.nan, "f"), np.full((m, n + 5), np.nan, "f")[:, 3 : 3 + n]):
                function, given = product((y, a, b))
                function(*given)
                want = y.copy()
                y[...] = np.nan
                (call,) = join_native([(function, given)] * 2)
                assert isinstance(call[0], NativeSequence)
                binding.run([call])
                np.testing.assert_array_equal(y, want)


def test_products_for_other_functions_of_blas_stay_with_numpy(products):
    """Vectors, a matrix times its own transpose, other types, lines that overlap or are not contiguous."""
    x, w = np.ones((4, 6), np.float32), np.ones((6, 6), np.float32)
    y = np.zeros((4, 6), np.float32)
    assert sgemm.product_arguments(x, w, y)
    overlapping = np.lib.stride_tricks.as_strided(x, (4, 6), (8, 4))
    crooked = np.zeros(4 * 24 + 1, np.uint8)[1:].view(np.float32).reshape(4, 6)
    for a, b, c in (
        (overlapping, w, y),
        (crooked, w, y),
        (x, x[:, :4], np.zeros((4, 4), np.float32)),
        (x[:1], w, y[:1]),
        (x, w[:, :1], y[:, :1]),
        (x[:, :1], w[:1], y),
        (w, w.T, np.zeros((6, 6), np.float32)),
        (x.astype(np.float64), w.astype(np.float64), y.astype(np.float64)),
        (x[:, ::2], w[:3], y),
        (x, w, np.asfortranarray(y)),
    ):
        assert sgemm.product_arguments(a, b, c) is None
        calls = [(np.matmul, (a, b, c))] * 2
        assert join_native(calls) == calls


def test_products_that_numpy_refuses_or_copies_stay_with_numpy():
    x, w, y = np.ones((4, 6), np.float32), np.ones((6, 5), np.float32), np.zeros((4, 5), np.float32)
    fixed = y.copy()
    fixed.flags.writeable = False
    square = np.ones((6, 6), np.float32)
    for a, b, c in (
        (x, w[:4], y),
        (x, w, y[:2]),
        (x, w, fixed),
        (x[0], w, y[0]),
        (x[None], w[None], y[None]),
        (square, w, square[:, :5]),
        (np.ones((6, 6), np.float32), square, square),
    ):
        assert sgemm.product_arguments(a, b, c) is None


# ---- joining --------------------------------------------------------------------------------


def test_calls_that_python_must_make_keep_their_place(compiled):
    seen = []
    total, calls = additions(compiled, 5)
    calls.insert(2, (lambda: seen.append(total[0]), ()))
    calls.append((lambda: seen.append(total[0]), ()))
    joined = join_native(calls)
    assert [isinstance(function, NativeSequence) for function, _ in joined] == [True, False, True, False]
    binding.run(joined)
    assert seen == [2, 5]


def test_a_single_call_and_an_empty_list_do_not_change(compiled):
    _, calls = additions(compiled, 1)
    assert join_native(calls) == calls and join_native([]) == []


def test_a_kernel_without_code_is_called_as_it_is(compiled):
    calls = [(kernels.load("numpy").accumulate, (np.zeros(2, "f"), np.ones(2, "f")))] * 2
    assert join_native(calls) == calls


def test_without_llvmlite_python_makes_all_calls(compiled, monkeypatch):
    _, calls = additions(compiled, 3)
    forget(monkeypatch)
    monkeypatch.setattr(fallback, "TOLD", set())
    monkeypatch.setattr(kernel, "tools", lambda: 1 / 0)
    assert native_support() == {"kernels": False, "products": False}
    assert join_native(calls) == calls


def test_a_numba_with_another_calling_convention_makes_its_calls_itself(monkeypatch):
    """Other array fields, other libraries, LLVM that refuses, another numpy."""
    from numba.core.codegen import JITCodeLibrary

    from tinytrain.kernels import compiler
    from tinytrain.kernels.dispatch import machine_code

    def refuse(*arguments):
        raise RuntimeError

    for owner, name, value in (
        (compiler, "ARRAY_FIELDS", ("data", "shape")),
        (compiler, "stub", None),
        (JITCodeLibrary, "serialize_using_object_code", lambda self: ("name", "bitcode", (b"", b""))),
        (machine_code, "load", refuse),
        (machine_code, "arrays_as_expected", lambda: False),
    ):
        total, one = np.zeros(4, np.float32), Kernel("one more", one_more, None)
        with monkeypatch.context() as changed:
            changed.setattr(fallback, "TOLD", set())
            changed.setattr(owner, name, value)
            calls = [(one.code((total,)), (total,))] * 2
            assert join_native(calls) == calls
        binding.run(calls)
        assert total.tolist() == [2] * 4


def one_more(total):
    for i in range(total.shape[0]):
        total[i] += np.float32(1)


# ---- BLAS ------------------------------------------------------------------------------------------


def test_a_product_with_other_bits_than_numpy_is_not_used(products, monkeypatch):
    nothing = ctypes.CFUNCTYPE(None)(lambda: None)
    address = ctypes.cast(nothing, ctypes.c_void_p).value
    native_calls._blas.__wrapped__()  # its correct result may lie in the memory of the next one
    monkeypatch.setattr(native_calls, "sgemm", lambda: address)
    assert native_calls._blas.__wrapped__() is None


def test_the_function_is_that_of_the_library_that_numpy_was_linked_with(products):
    """Not that of a BLAS which another package loaded."""
    known = blas.library()
    loaded = ctypes.CDLL(known["filepath"])
    functions = [getattr(loaded, name) for name in sgemm.NAMES if hasattr(loaded, name)]
    assert sgemm.sgemm() in [ctypes.cast(f, ctypes.c_void_p).value for f in functions]


def test_a_numpy_that_exports_no_such_function_makes_its_products_itself(compiled, monkeypatch):
    forget(monkeypatch)
    monkeypatch.setattr(sgemm, "NAMES", ("no_such_function",))
    assert sgemm.sgemm() is None
    x, y = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    calls = [(np.dot, (x, x.copy(), y))] * 2
    assert join_native(calls) == calls
    assert len(join_native(additions(compiled, 2)[1])) == 1


# ---- reliability -----------------------------------------------------------------------------------


def test_a_native_sequence_keeps_its_arrays_alive_and_nothing_longer(compiled):
    x = np.ones(4, np.float32)
    alive = weakref.ref(x)
    total, calls = additions(compiled, 2, x=x)
    joined = join_native(calls)
    del x, calls
    gc.collect()
    assert alive() is not None
    binding.run(joined)
    assert total.tolist() == [2] * 4
    del joined
    gc.collect()
    assert alive() is None


def test_a_kernel_that_raises_ends_the_sequence_with_an_error(compiled):
    def picky(x):
        if x[0] > 1:
            raise ValueError
        x[0] += 10

    total, (first, last) = additions(compiled, 2)
    calls = [first, (Kernel("picky", picky, None).code((total,)), (total,)), last]
    (joined,) = join_native(calls)
    binding.run([joined])
    assert total.tolist() == [12, 2, 2, 2]
    with pytest.raises(RuntimeError, match="kernel picky, 2 of 3"):
        binding.run([joined])
    assert total.tolist() == [13, 3, 3, 3]


@pytest.mark.slow
def test_other_threads_run_meanwhile(compiled):
    total, calls = additions(compiled, 2000, np.zeros(100_000, np.float32), np.ones(100_000, np.float32))
    (joined,) = join_native(calls)
    thread = threading.Thread(target=binding.run, args=([joined],))
    turns, start = 0, time.perf_counter()
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    assert total[0] == 2000
    assert turns > 0.1 * (time.perf_counter() - start) / 0.001


def test_threads_that_ask_at_once_share_one_piece_of_code():
    one, total = Kernel("one more", one_more, None), np.zeros(4, np.float32)
    found, gate = [], threading.Barrier(4)

    def ask():
        gate.wait()
        found.append(one.code((total,)))

    usual = threading.stack_size(2**20)  # for small machines
    try:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for t in threads:
            t.start()
    finally:
        threading.stack_size(usual)
    for t in threads:
        t.join()
    assert len(found) == 4 and len(set(found)) == 1
