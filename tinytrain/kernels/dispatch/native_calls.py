"""Native call sequences: bound calls that run one after another in machine code, without Python's lock.

A kernel takes a few microseconds. If Python calls it, workers wait for the interpreter between two calls, and
two workers are hardly faster than one. Here the arguments of every call lie in memory in the form that its
machine code expects. A loop of a few instructions passes them to code compiled by numba and to the BLAS of
numpy. The same code runs on the same bytes, so the bits are the same.

Python makes the other calls, and all calls if numba, LLVM or BLAS are not as expected.
"""

import functools
import itertools
import struct
from collections.abc import Callable, Sequence

import numpy as np

from tinytrain.kernels.compile_cache.facts import portable
from tinytrain.kernels.dispatch.direct import compiled_code, entry
from tinytrain.kernels.dispatch.sgemm import product_arguments, sgemm

ARRAY_FIELDS = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")  # of numba
WORD = 2**64
Step = tuple[int, int, list[int]]  # addresses of stub and function, cells of the arguments


class NativeSequence:
    """Consecutive `calls` as one callable; it keeps their arrays alive, as cells hold their addresses."""

    def __init__(self, steps: Sequence[Step], calls: Sequence[tuple]):
        self.calls, self._run, self._count = calls, _runner(), len(steps)
        self._cells = np.array([cell for *_, cells in steps for cell in cells], np.uint64)
        address, table = _address(self._cells), []
        for stub, function, cells in steps:
            table += [stub, function, address]
            address += self._cells.itemsize * len(cells)
        self._table = np.array(table, np.uint64)
        self._start = _address(self._table)

    def __call__(self) -> None:
        if failed := self._run(self._start, self._count):
            name = getattr(self.calls[failed - 1][0], "__name__", "?")
            raise RuntimeError(f"kernel {name}, {failed} of {self._count} calls, reports an error")


def join_native(calls: Sequence[tuple]) -> list[tuple]:
    """`calls`, (callable, arguments), with consecutive native calls joined into one `NativeSequence`."""
    found: list[tuple] = []
    steps: list[Step] = []
    for k in range(len(calls) + 1):
        step = _step(*calls[k]) if k < len(calls) else None
        if step is not None:
            steps.append(step)
            continue
        row = calls[k - len(steps) : k]
        found += [(NativeSequence(steps, row), ())] if len(row) > 1 else row
        found += calls[k : k + 1]
        steps = []
    return found


def split_native(calls: Sequence[tuple]) -> list[tuple]:
    """The inverse of `join_native`."""
    stretches = (
        function.calls if isinstance(function, NativeSequence) else [(function, a)] for function, a in calls
    )
    return list(itertools.chain.from_iterable(stretches))


def native_support() -> dict[str, bool]:
    """Whether calls of "kernels" and of matrix "products" can be native on this machine; both are tried.

    Raises the errors of importing numba.
    """
    import numba

    kernel, total = numba.njit(nogil=True)(_add_one), np.zeros(1, np.float32)
    joined = join_native([entry(kernel, kernel)((total,))] * 2)
    for function, arguments in joined:
        function(*arguments)
    kernels = len(joined) == 1 and total[0] == 2
    return {"kernels": bool(kernels), "products": bool(kernels and (portable() or _blas()))}


def _add_one(total):
    total[0] += np.float32(1)


def _step(function: Callable, arguments: tuple) -> Step | None:
    """The native step of a call; None if Python must make it."""
    if function is np.dot or function is np.matmul:
        given = product_arguments(*arguments)
        known = given and _blas()
        return known and (*known, _product_cells(given))
    known = _kernel(function) if compiled_code(function) else None
    return known and (*known, _kernel_cells(arguments))


@functools.cache
def _kernel(function: Callable) -> tuple[int, int] | None:
    """Addresses of the stub and of the code of a numba entry point; None if it is not as expected."""
    if _runner() is None:
        return None
    code = compiled_code(function)
    try:
        from tinytrain.kernels.dispatch.call_stubs import stub

        context, described = code.target_context, code.fndesc
        if not all(_is_known(t, context) for t in described.argtypes):
            return None
        address = code.library.get_pointer_to_function(described.llvm_func_name)
        kind = context.call_conv.get_function_type(described.restype, described.argtypes)
        return (stub(kind, outputs=2), address) if address else None
    except Exception:  # numba and LLVM raise anything
        return None


def _is_known(kind, context) -> bool:
    """Whether `_kernel_cells` lays out an argument of numba type `kind` as numba passes it."""
    from numba import types

    if isinstance(kind, types.Array):
        return context.data_model_manager[kind]._fields == ARRAY_FIELDS
    return isinstance(kind, types.Integer | types.Boolean) or kind in (types.float32, types.float64)


@functools.cache
def _runner() -> Callable[[int, int], int] | None:
    """The loop over steps; None if llvmlite is missing or cannot build it."""
    try:
        from tinytrain.kernels.dispatch.call_stubs import runner

        return runner()
    except Exception:  # LLVM raises anything
        return None


@functools.cache
def _blas() -> tuple[int, int] | None:
    """Addresses of the stub and of cblas_sgemm; None if it is missing or its bits differ from `np.dot`."""
    address = sgemm()
    if address is None or _runner() is None:
        return None
    try:
        from tinytrain.kernels.dispatch.call_stubs import product_stub

        known = product_stub(), address
    except Exception:  # LLVM raises anything
        return None
    # The size of a small layer: smaller products have the same bits with every processor's kernels.
    x, w = (np.sin(np.arange(96 * size, dtype=np.float32)).reshape(size, 96) for size in (49, 24))
    y = np.full((49, 24), np.nan, np.float32)
    given = product_arguments(x, w.T, y)
    NativeSequence([(*known, _product_cells(given))], [(sgemm, ())])()
    return known if np.array_equal(y, np.dot(x, w.T)) else None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _product_cells(arguments: Sequence) -> list[int]:
    """The arguments of cblas_sgemm; an array is passed by its address."""
    return [_address(a) if isinstance(a, np.ndarray) else _scalar(a) for a in arguments]


def _kernel_cells(arguments: Sequence) -> list[int]:
    """The arguments of a kernel; an array is passed as `ARRAY_FIELDS`, of which the first two are unused."""
    cells: list[int] = []
    for a in arguments:
        if isinstance(a, np.ndarray):
            cells += [0, 0, a.size, a.itemsize, _address(a), *a.shape, *(s % WORD for s in a.strides)]
        else:
            cells.append(_scalar(a))
    return cells


def _scalar(value) -> int:
    """A scalar in the low bytes of a cell."""
    if isinstance(value, (np.float32, float)):
        packed = struct.pack("<f" if isinstance(value, np.float32) else "<d", value)
        return int.from_bytes(packed, "little")
    return int(value) % WORD
