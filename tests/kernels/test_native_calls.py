"""Native call sequences: the same bits, the same order, without Python's lock."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from cases import each
from kernelarrays import Output
from kernelcases import CASES
from toynets import rng

from tinytrain import kernels
from tinytrain.kernels import fallback, kernel
from tinytrain.kernels.dispatch import direct, native_calls
from tinytrain.kernels.dispatch.native_calls import NativeSequence, join_native, native_support
from tinytrain.kernels.kernel import Kernel
from tinytrain.runtime import bind as binding

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def compiled():
    return kernels.load("auto")


def bound(kernel, *arguments):
    return direct.direct(kernel, arguments)


def forget(monkeypatch):
    """Clear what is cached about this machine."""
    for name in ("_runner", "_tools"):
        monkeypatch.setattr(native_calls, name, getattr(native_calls, name).__wrapped__)


def additions(compiled, count, total=None, x=None):
    """`count` calls that add 1 to `total`."""
    total = np.zeros(4, np.float32) if total is None else total
    x = np.ones(4, np.float32) if x is None else x
    return total, [bound(compiled.accumulate, total, x) for _ in range(count)]


# ---- the same bits -------------------------------------------------------------------------------


def test_compiled_kernels_are_called_natively_here():
    assert native_support()


@each("name", sorted(CASES))
def test_every_kernel_gives_the_same_bits_in_a_native_sequence(compiled, name):
    arguments, outputs = CASES[name](rng("stretch", name)), []
    for together in (False, True):
        values = tuple(a.start.copy() if isinstance(a, Output) else a for a in arguments)
        total, (call,) = additions(compiled, 1)
        calls = [bound(getattr(compiled, name), *values), call]
        if together:
            calls = join_native(calls)
            assert len(calls) == 1
        binding.run(calls)
        assert total.tolist() == [1] * 4
        outputs.append([v for v, a in zip(values, arguments, strict=True) if isinstance(a, Output)])
    for a, b in zip(*outputs, strict=True):
        np.testing.assert_array_equal(a, b)


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
    assert not native_support()
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
