"""Machine code without numba: which code is for which arguments, what it needs, what is refused."""

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import CFUNCTYPE, c_int32, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest
from cases import each

from tinytrain.kernels.compile_cache.cache import Cache
from tinytrain.kernels.dispatch import call_tools, machine_code
from tinytrain.kernels.dispatch.code import described, kinds_of, packer
from tinytrain.kernels.dispatch.machine_code import needed, packed, unpacked
from tinytrain.kernels.dispatch.native_calls import join_native
from tinytrain.kernels.kernel import Kernel, tools

numba = pytest.importorskip("numba")


def arrays():
    """Arrays that numba has a type of its own for, and some that share one."""
    x = np.zeros((4, 6), np.float32)
    fixed, crooked = x.copy(), np.zeros(97, np.uint8)[1:].view(np.float32).reshape(4, 6)
    fixed.flags.writeable = False
    several = (
        x, x[1:], x[:1], x.T, x[:, 1:3], x[::2], x[:, :1], x[0], x[:, 0], x[:0], fixed, crooked,
        x.reshape(2, 3, 4),
    )  # fmt: skip
    numbers = (np.zeros(3, kind) for kind in "?bBhHiIlLd")
    return [*several, *numbers, x.astype(np.float64), x.astype(">f4")]


def test_kinds_tell_apart_what_numba_does_and_no_more_but_arrays_that_are_not_aligned():
    values = [
        *arrays(), 1, 2**40, 1.5, True, np.float32(1), np.float64(1), np.int32(1), np.uint8(3),
        np.bool_(1),
    ]  # fmt: skip
    native = [v for v in values if getattr(v, "dtype", np.dtype("f")).isnative]  # numba refuses the others
    aligned = [v for v in native if not isinstance(v, np.ndarray) or v.flags.aligned]
    crooked = [v for v in native if not any(v is other for other in aligned)]
    assert crooked and not {described([v]) for v in crooked} & {described([v]) for v in aligned}
    for a, b in itertools.product(aligned, aligned):
        assert (numba.typeof(a) == numba.typeof(b)) == (described([a]) == described([b])), (a, b)
        assert kinds_of([a]) != kinds_of([b]) or described([a]) == described([b])
    swapped, usual = values[len(arrays()) - 1], arrays()[0]
    assert kinds_of([swapped]) != kinds_of([usual]) and described([swapped]) != described([usual])


@each("value", ["text", None, 1j, np.complex64(1), [1]])
def test_anything_but_arrays_and_numbers_is_refused(value):
    with pytest.raises(TypeError, match="arrays and numbers"):
        packer([value])


def echo(out, whole, small, single, double, yes, values):
    out[0], out[1], out[2], out[3] = whole, small, single, double
    if yes:
        out[4] = 1
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[5 + i * values.shape[1] + j] = values[i, j]


@pytest.mark.parametrize("yes", [True, False])
def test_a_stub_passes_numbers_and_arrays_of_every_layout(yes):
    x, made = np.arange(12, dtype=np.float32).reshape(3, 4), Kernel("echo", echo, None)
    for values in (x, x.T, x[:, 1:3], x[::-1], x[::2, ::-2], x[:0]):
        out = np.zeros(20)
        made(out, -(2**40), np.int8(-3), np.float32(0.1), 1e-300, yes, values)
        assert out[:5].tolist() == [-(2**40), -3, np.float32(0.1), 1e-300, yes]
        assert (
            out[5 : 5 + values.size].tolist() == values.reshape(-1).tolist()
            and not out[5 + values.size :].any()
        )


def third(values):
    return 3 if values[2] > 0 else 0


def test_a_whole_number_that_a_kernel_returns_is_returned_also_by_every_thread():
    made, rows = Kernel("third", third, None), [np.ones(3, np.float32), np.zeros(3, np.float32)]
    assert [made(row) for row in rows] == [3, 0]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(made, rows * 200)) == [3, 0] * 200
    joined = join_native([(made.code((row,)), (row,)) for row in rows])
    assert len(joined) == 1 and joined[0][0]() is None, "it is no error"


def reshape(x, shape):
    """(whether it can be done, strides) by the function that stands for numba's."""
    address = tools()[machine_code.TOOLS.index(machine_code.RESHAPE)]
    kinds = [c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_int32]
    old, steps, new, out = (np.array(v, np.int64) for v in (x.shape, x.strides, shape, [0] * len(shape)))
    places = [v.__array_interface__["data"][0] for v in (old, steps, new, out)]
    done = CFUNCTYPE(c_int32, *kinds)(address)(
        x.ndim, places[0], places[1], len(shape), places[2], places[3], x.itemsize, 0
    )
    return done, tuple(out.tolist())


@pytest.mark.parametrize("kind", ["u1", "f4"])
def test_kernels_reshape_as_numpy_does(kind):
    whole = np.zeros((2, 3, 1, 4), kind)
    for x in (whole, whole[1:], whole[:1], np.zeros((1, 1), kind), np.zeros((0, 3), kind), whole[:, :0]):
        for shape in ((x.size,), (1, x.size), (x.size, 1), x.shape[::-1]):
            assert reshape(x, shape)[0] == 1
            assert x.size == 0 or reshape(x, shape)[1] == np.zeros(shape, kind).strides
    for x in (whole[:, ::2], whole[..., :2], whole[::-1], np.zeros((3, 2), kind).T):
        assert reshape(x, (x.size,))[0] == 0


def test_what_an_object_file_needs_is_read_from_it():
    assert needed(call_tools.tools()) == []
    facts, kernel, stub = unpacked(packed({"needs": ["expf"]}, b"kernel\n", b"stub"))
    assert (facts["needs"], kernel, stub) == (["expf"], b"kernel\n", b"stub")
    with pytest.raises(ValueError, match="no object file"):
        needed(b"MZ")


SIMPLE = """
import sys, numpy as np
from tinytrain import kernels
table, x = kernels.load(), np.ones((2, 4), np.float32)
table.normalize_rows(x)
print(x[0, 0], "numba" in sys.modules, table.backend)
"""


def simple(cache):
    """What a process with this cache says."""
    environment = dict(os.environ, TINYTRAIN_CACHE=str(cache))
    done = subprocess.run([sys.executable, "-c", SIMPLE], env=environment, capture_output=True, text=True)
    return done.stdout.split(), done.stderr


def changed(cache, change):
    """Another whole file in place of that of a kernel: one that a process may load."""
    (path,) = Path(cache).rglob("*normalize_rows*")
    content = path.read_bytes()[32:]
    Cache(path.parent, True, None, {}).write(path.name, change(content))


def without_symbols(content):
    facts, *code = unpacked(content)
    return packed(facts | {"needs": ["numba_unpickle"]}, *code)


def test_code_on_disk_is_called_without_numba_and_what_lacks_a_symbol_is_compiled_again(tmp_path):
    assert simple(tmp_path) == (["0.5", "True", "numba"], "")
    assert simple(tmp_path) == (["0.5", "False", "numba"], "")
    for change, reason in ((without_symbols, "it needs numba_unpickle"), (lambda _: b"no facts", "")):
        changed(tmp_path, change)
        said, warning = simple(tmp_path)
        assert said == ["0.5", "True", "numba"] and warning.count("\n") == 1
        assert "could not be loaded" in warning and reason in warning
        assert simple(tmp_path) == (["0.5", "False", "numba"], "")


def test_the_layout_of_numpy_arrays_is_compared_with_what_stubs_read(monkeypatch):
    assert machine_code.arrays_as_expected.__wrapped__()
    monkeypatch.setattr(machine_code, "object", type("Head", (), {"__basicsize__": 24}), raising=False)
    assert not machine_code.arrays_as_expected.__wrapped__()
