"""Proves of the calls of a segment that they use memory as they must; see `programcheck` for programs."""

from itertools import combinations

import numpy as np

from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import Bias, Buffer, Call, LayerArray, Segment, View, Weight, extent_of
from tinytrain.program.memory_planner import check
from tinytrain.program.signatures import SCRATCH, Argument
from tinytrain.program.stages import Listed, Of, Rows, Unit


def check_call(call: Call, where: str) -> None:
    """Raise ProgramError unless number, shapes and dtypes of the arrays are those of the signature."""
    arguments = call.signature.arrays
    if len(call.args) < len(arguments):
        raise ProgramError(f"{where}: {call.kernel} takes {len(arguments)} arrays, has {len(call.args)}")
    sizes: dict[str, int] = {}
    for (name, argument), array in zip(arguments.items(), call.arrays, strict=True):
        if isinstance(array, Of):
            continue  # a unit's own array, which its segment gave its shape
        if argument.dtype not in (None, array.dtype):
            wrong = f"{array.dtype}, not {argument.dtype}"
            raise ProgramError(f"{where}: {name} of {call.kernel} is {wrong}")
        if argument.shape is None:
            continue
        extent = extent_of(array)
        if len(extent) != len(argument.shape):
            raise ProgramError(f"{where}: {name} of {call.kernel} has shape {extent}")
        for letter, size in zip(argument.shape, extent, strict=True):
            first = isinstance(array, Listed | Rows) and size == extent[0]
            if letter != "*" and not first and sizes.setdefault(letter, size) != size:
                raise ProgramError(
                    f"{where}: {call.kernel} has {letter}={size} in {name}, and {sizes[letter]} before it"
                )


def check_segment(segment: Segment) -> tuple[set[Buffer], set[Buffer]]:
    """External buffers that a segment reads before it writes them, and those that it writes.

    Raises ProgramError for a wrong call, for what is read before it is written, for an output over an input,
    for a view that leaves its buffer, and for parameters that a step still needs when it changes them.
    """
    check(segment.layout)
    state, changed = _Elements(segment), set()
    before = segment.after.calls if segment.after else []
    for number, call in enumerate([*before, *segment.calls]):
        where = f"{segment.name}, call {number}"
        check_call(call, where)
        signature = call.signature
        read, written = _layers_of(call)
        if read & changed and not written:
            raise ProgramError(f"{where}: {call.kernel} reads parameters that have been updated")
        changed |= written
        pairs = views_of(call)
        for argument, view in pairs:
            if argument.is_read:
                state.read(view, f"{where}: {call.kernel}")
        if not signature.in_place:
            check_apart(pairs, f"{where}: {call.kernel}")
        for argument, view in pairs:
            if argument.is_written:
                state.write(view, argument.mode != SCRATCH)
    for view in segment.outputs:
        state.read(view, f"{segment.name}: its output")
    return state.external_reads, state.external_writes


class _Elements:
    """Which elements of which buffers hold a value."""

    def __init__(self, segment: Segment):
        self.segment = segment
        self.written: dict[Buffer, np.ndarray] = {}
        self.external_reads: set[Buffer] = set()
        self.external_writes: set[Buffer] = set()

    def _part(self, view: View, where: str = "") -> np.ndarray:
        copies = self.segment.n if view.buffer in self.segment.external else 1
        size = copies * int(np.prod(view.buffer.shape, dtype=np.int64))
        if view.start < 0 or view.start + view.span > size:
            raise ProgramError(f"{where} uses elements of {view.buffer.name} that it does not have")
        return _seen(view, self.written.setdefault(view.buffer, np.zeros(size, bool)))

    def read(self, view: View, where: str) -> None:
        if self._part(view, where).all():
            return
        if view.buffer not in self.segment.external:
            raise ProgramError(f"{where} reads {view.buffer.name} before it is written")
        self.external_reads.add(view.buffer)

    def write(self, view: View, means: bool) -> None:
        self._part(view)[...] = means
        if view.buffer in self.segment.external:
            self.external_writes.add(view.buffer)


def _layers_of(call: Call) -> tuple[set[int], set[int]]:
    """Layers whose parameters a call reads, and those whose parameters it changes."""
    pairs = zip(call.signature.arrays.values(), call.arrays, strict=True)
    named = [(argument, a.layer) for argument, a in pairs if isinstance(a, Weight | Bias | LayerArray)]
    return {i for a, i in named if a.is_read}, {i for a, i in named if a.is_written}


def views_of(call: Call, unit: Unit | None = None) -> list[tuple[Argument, View]]:
    """The arrays of a call of a `unit` that lie in buffers, with what the kernel does to them."""
    label = unit and unit.label and unit.label.whole
    pairs = zip(call.signature.arrays.values(), call.arrays, strict=True)
    viewed = (
        (argument, a.view if isinstance(a, Listed | Rows) else label if a is Of.LABEL else a)
        for argument, a in pairs
    )
    return [(argument, view) for argument, view in viewed if isinstance(view, View)]


def check_apart(pairs: list[tuple[Argument, View]], where: str) -> None:
    """No array that is written shares elements with another array of the call."""
    for (first, a), (second, b) in combinations(pairs, 2):
        if (first.is_written or second.is_written) and _overlap(a, b):
            raise ProgramError(f"{where} writes {a.buffer.name} while it reads it")


def _overlap(a: View, b: View) -> bool:
    end = max(a.start + a.span, b.start + b.span)
    if a.buffer is not b.buffer or a.span + b.span <= end - min(a.start, b.start):
        return False
    numbers = np.zeros(end, bool)
    return np.shares_memory(_seen(a, numbers), _seen(b, numbers))


def _seen(view: View, numbers: np.ndarray) -> np.ndarray:
    """The view of these `numbers`, a byte each, in place of those of its buffer."""
    return np.ndarray(view.shape, bool, numbers, view.start, view.steps)
