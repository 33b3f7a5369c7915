"""Bound calls run one after another in machine code, without Python and its lock between them.

A kernel takes a few microseconds. Called from Python, lanes wait for the interpreter between any two of them,
so that two are hardly faster than one. Here the arguments of every call are laid out in memory as the code of
its kernel expects them, and a loop of a few instructions passes them on: to what numba compiled, and to the
BLAS that numpy brings. It is the same code on the same bytes, and gives the same bits.

Calls that cannot go this way stay what they are: wherever numba, LLVM or BLAS are not as expected, Python
makes them.
"""

import functools
import itertools
import struct
from collections.abc import Callable, Sequence

import numpy as np

from tinytrain.kernels.compile_cache.facts import portable
from tinytrain.kernels.dispatch.direct import compiled_code, entry
from tinytrain.kernels.dispatch.sgemm import product_arguments, sgemm

ARRAY_FIELDS = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")  # of numba's arrays
WORD = 2**64
Step = tuple[int, int, list[int]]  # thunk, function, cells of its arguments


class Stretch:
    """`calls` that follow one another, kept alive with their arrays: the cells hold addresses of these."""

    def __init__(self, steps: Sequence[Step], calls: Sequence[tuple]):
        self.calls, self._run, self._count = calls, _runner(), len(steps)
        self._cells = np.array([cell for *_, cells in steps for cell in cells], np.uint64)
        address, table = _address(self._cells), []
        for thunk, function, cells in steps:
            table += [thunk, function, address]
            address += self._cells.itemsize * len(cells)
        self._table = np.array(table, np.uint64)
        self._start = _address(self._table)

    def __call__(self) -> None:
        if failed := self._run(self._start, self._count):
            name = getattr(self.calls[failed - 1][0], "__name__", "?")
            raise RuntimeError(f"kernel {name}, {failed} of {self._count} in a row, reports an error")


def stretched(calls: Sequence[tuple]) -> list[tuple]:
    """`calls`, (callable, arguments), with those that follow one another in machine code as a single one."""
    found: list[tuple] = []
    steps: list[Step] = []
    for k in range(len(calls) + 1):
        step = _step(*calls[k]) if k < len(calls) else None
        if step is not None:
            steps.append(step)
            continue
        row = calls[k - len(steps) : k]
        found += [(Stretch(steps, row), ())] if len(row) > 1 else row
        found += calls[k : k + 1]
        steps = []
    return found


def single(calls: Sequence[tuple]) -> list[tuple]:
    """The calls that `stretched` made `calls` of."""
    stretches = (
        function.calls if isinstance(function, Stretch) else [(function, a)] for function, a in calls
    )
    return list(itertools.chain.from_iterable(stretches))


def ways() -> dict[str, bool]:
    """Whether calls of "kernels", and of matrix "products", can go without Python here: both are tried.

    Raises what the import of numba raises.
    """
    import numba

    kernel, total = numba.njit(nogil=True)(_add_one), np.zeros(1, np.float32)
    joined = stretched([entry(kernel, kernel)((total,))] * 2)
    for function, arguments in joined:
        function(*arguments)
    kernels = len(joined) == 1 and total[0] == 2
    return {"kernels": bool(kernels), "products": bool(kernels and (portable() or _blas()))}


def _add_one(total):
    total[0] += np.float32(1)


def _step(function: Callable, arguments: tuple) -> Step | None:
    """None for a call that has no machine code, or none that is known here."""
    if function is np.dot or function is np.matmul:
        given = product_arguments(*arguments)
        known = given and _blas()
        return known and (*known, _product_cells(given))
    known = _kernel(function) if compiled_code(function) else None
    return known and (*known, _kernel_cells(arguments))


@functools.cache
def _kernel(function: Callable) -> tuple[int, int] | None:
    """Thunk and address of the code behind one of numba's entry points; None where it is not as expected."""
    if _runner() is None:
        return None
    code = compiled_code(function)
    try:
        from tinytrain.kernels.dispatch.thunks import thunk

        context, described = code.target_context, code.fndesc
        if not all(_is_known(t, context) for t in described.argtypes):
            return None
        address = code.library.get_pointer_to_function(described.llvm_func_name)
        kind = context.call_conv.get_function_type(described.restype, described.argtypes)
        return (thunk(kind, outputs=2), address) if address else None
    except Exception:  # numba and LLVM raise anything
        return None


def _is_known(kind, context) -> bool:
    """Whether numba passes an argument of its type `kind` as `_kernel_cells` has it."""
    from numba import types

    if isinstance(kind, types.Array):
        return context.data_model_manager[kind]._fields == ARRAY_FIELDS
    return isinstance(kind, types.Integer | types.Boolean) or kind in (types.float32, types.float64)


@functools.cache
def _runner() -> Callable[[int, int], int] | None:
    """The loop; None where llvmlite is missing, or cannot build it."""
    try:
        from tinytrain.kernels.dispatch.thunks import runner

        return runner()
    except Exception:  # LLVM raises anything
        return None


@functools.cache
def _blas() -> tuple[int, int] | None:
    """Thunk and address of cblas_sgemm; None where it is not found, or does not give the bits of `np.dot`."""
    address = sgemm()
    if address is None or _runner() is None:
        return None
    try:
        from tinytrain.kernels.dispatch.thunks import product_thunk

        known = product_thunk(), address
    except Exception:  # LLVM raises anything
        return None
    # As large as products of small layers are: the least ones are the same with the kernels of any processor.
    x, w = (np.sin(np.arange(96 * size, dtype=np.float32)).reshape(size, 96) for size in (49, 24))
    y = np.full((49, 24), np.nan, np.float32)
    given = product_arguments(x, w.T, y)
    Stretch([(*known, _product_cells(given))], [(sgemm, ())])()
    return known if np.array_equal(y, np.dot(x, w.T)) else None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _product_cells(arguments: Sequence) -> list[int]:
    """The arguments of cblas_sgemm: of an array its address."""
    return [_address(a) if isinstance(a, np.ndarray) else _scalar(a) for a in arguments]


def _kernel_cells(arguments: Sequence) -> list[int]:
    """The arguments of a kernel: of an array all of `ARRAY_FIELDS`, the first two of which nobody reads."""
    cells: list[int] = []
    for a in arguments:
        if isinstance(a, np.ndarray):
            cells += [0, 0, a.size, a.itemsize, _address(a), *a.shape, *(s % WORD for s in a.strides)]
        else:
            cells.append(_scalar(a))
    return cells


def _scalar(value) -> int:
    """A number in the low bytes of a cell."""
    if isinstance(value, (np.float32, float)):
        packed = struct.pack("<f" if isinstance(value, np.float32) else "<d", value)
        return int.from_bytes(packed, "little")
    return int(value) % WORD
