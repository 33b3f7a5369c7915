"""Native call sequences: bound calls that run one after another in machine code, without Python's lock.

A kernel takes a few microseconds. If Python calls it, workers wait for the interpreter between two calls, and
two workers are hardly faster than one. Here the arguments of every call lie in memory as its stub reads them.
A loop of a few instructions passes them to kernels and to the BLAS of numpy. The same code runs on the same
bytes, so the bits are the same.

Python makes the other calls, and all calls if numba, LLVM or BLAS are not as expected.
"""

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence

import numpy as np

from tinytrain.kernels.compile_cache.facts import portable
from tinytrain.kernels.dispatch.code import Code
from tinytrain.kernels.dispatch.sgemm import product_arguments, sgemm

PRODUCT_CELLS = struct.Struct("=6qf4xQqQqf4xQq")  # of what `product_arguments` gives
Step = tuple[int, int, bytes]  # addresses of stub and function, cells of the arguments


class NativeSequence:
    """Consecutive `calls` as one callable; it keeps functions and arrays alive, whose addresses cells hold.

    The tuples of the calls are not kept: they take more bytes than the cells.
    """

    def __init__(self, steps: Sequence[Step], calls: Sequence[tuple]):
        self._run, self._count = _runner(), len(steps)
        self._functions = [function for function, _ in calls]
        arrays = {id(a): a for _, given in calls for a in given if isinstance(a, np.ndarray)}
        self._arrays = list(arrays.values())
        self._cells = np.frombuffer(b"".join(cells for *_, cells in steps), np.uint64)
        address, table = _address(self._cells), []
        for stub, function, cells in steps:
            table += [stub, function, address]
            address += len(cells)
        self._table = np.array(table, np.uint64)
        self._start = _address(self._table)

    def __call__(self) -> None:
        if failed := self._run(self._start, self._count):
            name = getattr(self._functions[failed - 1], "__name__", "?")
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


def native_support() -> dict[str, bool]:
    """Whether calls of "kernels" and of matrix "products" can be native on this machine; both are tried.

    Raises the errors of importing numba.
    """
    import numba  # noqa: F401

    from tinytrain.kernels.kernel import Kernel

    kernel, total = Kernel("add_one", _add_one, None), np.zeros(1, np.float32)
    joined = join_native([(kernel.code((total,)), (total,))] * 2)
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
    if isinstance(function, Code) and _runner() is not None:
        return function.stub, function.function, function.cells(arguments)
    return None


@functools.cache
def _runner() -> Callable[[int, int], int] | None:
    """The loop over steps; None if llvmlite is missing or cannot build it."""
    tools = _tools()
    return tools and ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(tools[0])


@functools.cache
def _tools() -> Sequence[int] | None:
    """Addresses of the loop and of the stub for products."""
    try:
        from tinytrain.kernels.kernel import tools

        return tools()
    except Exception:  # LLVM raises anything
        return None


@functools.cache
def _blas() -> tuple[int, int] | None:
    """Addresses of the stub and of cblas_sgemm; None if it is missing or its bits differ from `np.dot`."""
    address, tools = sgemm(), _tools()
    if address is None or tools is None:
        return None
    known = tools[1], address
    # The size of a small layer: smaller products have the same bits with every processor's kernels.
    x, w = (np.sin(np.arange(96 * size, dtype=np.float32)).reshape(size, 96) for size in (49, 24))
    y = np.full((49, 24), np.nan, np.float32)
    given = product_arguments(x, w.T, y)
    NativeSequence([(*known, _product_cells(given))], [(sgemm, ())])()
    return known if np.array_equal(y, np.dot(x, w.T)) else None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _product_cells(arguments: Sequence) -> bytes:
    """The arguments of cblas_sgemm; an array is passed by the address of its first number."""
    return PRODUCT_CELLS.pack(*[_address(a) if isinstance(a, np.ndarray) else a for a in arguments])
