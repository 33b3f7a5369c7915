"""Native call sequences: bound calls that run one after another in machine code, without Python's lock.

A kernel takes a few microseconds. If Python calls it, workers wait for the interpreter between two calls, and
two workers are hardly faster than one. Here the arguments of every call lie in memory as its stub reads them.
A loop of a few instructions passes them to kernels. The same code runs on the same bytes, so the bits are the
same.

Python makes the other calls, and all calls if numba or LLVM are not as expected.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence

import numpy as np

from tinytrain.kernels.dispatch.code import SLEEP, Code

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
        self._cells = np.frombuffer(b"".join(cells for *_, cells in steps) or bytes(8), np.uint64)
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


def join_native(calls: Sequence[tuple | None]) -> list[tuple]:
    """`calls`, (callable, arguments), with consecutive native calls joined into one `NativeSequence`.

    None among them is left out.
    """
    calls = [call for call in calls if call]
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


def native_support() -> bool:
    """Whether calls of kernels can be native on this machine, which is tried.

    Raises the errors of importing numba.
    """
    import numba  # noqa: F401

    from tinytrain.kernels.kernel import Kernel

    kernel, total = Kernel("add_one", _add_one, None), np.zeros(1, np.float32)
    joined = join_native([(kernel.code((total,)), (total,))] * 2)
    for function, arguments in joined:
        function(*arguments)
    return len(joined) == 1 and bool(total[0] == 2)


def _add_one(total):
    total[0] += np.float32(1)


def _step(function: Callable, arguments: tuple) -> Step | None:
    """The native step of a call; None if Python must make it."""
    if isinstance(function, Code) and _runner() is not None:
        return function.stub, function.function, function.cells(arguments)
    return None


def native_turns(state: ctypes.Array) -> tuple[Code, Code] | None:
    """`begin_turn` and `end_turn` of a worker whose words are `state`; None if Python must do it.

    `state` must outlive them. The first raises RuntimeError if the one before has given up.
    """
    if (found := _tools()) is None:
        return None
    _, begin, end, *_, state[SLEEP] = found
    address = ctypes.addressof(state)
    return Code("begin_turn", begin, address, ()), Code("end_turn", end, address, ())


@functools.cache
def _runner() -> Callable[[int, int], int] | None:
    """The loop over steps; None if llvmlite is missing or cannot build it."""
    found = _tools()
    return found and ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(found[0])


@functools.cache
def _tools() -> list[int] | None:
    """Addresses of the tools of kernels, and last of C's `usleep`; None as of `_runner`."""
    try:
        from tinytrain.kernels.kernel import tools

        return [*tools(), ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value]
    except Exception:  # LLVM raises anything
        return None


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
