"""Proves of a Program, without running it, that its memory is used as it must be.

Nothing is read before it is written, live buffers do not overlap, nothing is used outside of its lifetime or
its arena, and every call has arrays of the shapes and dtypes that its kernel takes.
"""

from collections.abc import Iterable
from itertools import groupby

import numpy as np

from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import Buffer, Call, Segment, View
from tinytrain.program.memory_planner import check
from tinytrain.program.program import Program
from tinytrain.program.signatures import SCRATCH
from tinytrain.program.stages import (
    Augment,
    FitHead,
    KeepHead,
    Listed,
    Load,
    Of,
    Read,
    Repeat,
    Rows,
    Run,
    Stage,
    Store,
    Take,
    Unit,
)


def check_program(program: Program) -> None:
    """Raise ProgramError unless every promise above holds."""
    check(program.layout)
    used = {key: check_segment(segment) for key, segment in program.segments.items()}
    stages = _Stages(program, used)
    for times, group in groupby(program.stages, lambda stage: stage.times):
        repeated = list(group)
        for stage in repeated * min(times, 2):  # twice: a step follows another one
            stages.check(stage)


# ---- calls ---------------------------------------------------------------------------------------


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
        if len(array.extent) != len(argument.shape):
            raise ProgramError(f"{where}: {name} of {call.kernel} has shape {array.extent}")
        for letter, size in zip(argument.shape, array.extent, strict=True):
            first = isinstance(array, Listed) and size == array.extent[0]
            if letter != "*" and not first and sizes.setdefault(letter, size) != size:
                raise ProgramError(
                    f"{where}: {call.kernel} has {letter}={size} in {name}, and {sizes[letter]} before it"
                )


# ---- segments ------------------------------------------------------------------------------------


def check_segment(segment: Segment) -> tuple[set[Buffer], set[Buffer]]:
    """External buffers that a segment reads before it writes them, and those that it writes.

    Raises ProgramError for a wrong call, for what is read before it is written, for an output over an input,
    and for a view that leaves its buffer.
    """
    check(segment.layout)
    state = _Elements(segment)
    for number, call in enumerate(segment.calls):
        where = f"{segment.name}, call {number}"
        check_call(call, where)
        signature = call.signature
        pairs = [
            (argument, array)
            for argument, array in zip(signature.arrays.values(), call.arrays, strict=True)
            if isinstance(array, View)
        ]
        for argument, view in pairs:
            if argument.is_read:
                state.read(view, f"{where}: {call.kernel}")
        if not signature.in_place:
            _check_apart(pairs, f"{where}: {call.kernel}")
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
        if view.start < 0 or view.start + view.size > size:
            raise ProgramError(f"{where} uses elements of {view.buffer.name} that it does not have")
        whole = self.written.setdefault(view.buffer, np.zeros(size, bool))
        part = whole[view.start : view.start + view.size]
        return part if view.column_range is None else part.reshape(view.shape)[:, slice(*view.column_range)]

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


def _check_apart(pairs, where: str) -> None:
    """No array that is written shares elements with another array of the call."""
    for k, (argument, a) in enumerate(pairs):
        for _, b in pairs[k + 1 :] if argument.is_written else ():
            same = a.buffer is b.buffer and a.start < b.start + b.size and b.start < a.start + a.size
            if same and (a.column_range is None or a.column_range == b.column_range):
                raise ProgramError(f"{where} writes {a.buffer.name} while it reads it")


# ---- stages --------------------------------------------------------------------------------------


class _Stages:
    """Which buffers of a program hold a value, stage after stage."""

    def __init__(self, program: Program, used: dict[tuple[str, int], tuple[set[Buffer], set[Buffer]]]):
        self.program, self.used = program, used
        self.written: set[str] = set()
        self.tick, self.where = -1, ""

    def check(self, stage: Stage) -> None:
        if stage.tick != self.tick:  # what does not live on is gone: its bytes belong to others
            last = self.tick
            self.tick = stage.tick
            self.written = {n for n in self.written if self._lives(n, last) and self._lives(n, stage.tick)}
        self.where = f"stage {stage.name}"
        self._body(stage.body)

    def _lives(self, name: str, tick: int) -> bool:
        first, last = self.program.life(name)
        return first <= tick <= last

    def _read(self, buffer: Buffer) -> None:
        self._use(buffer)
        if buffer.name not in self.written:
            raise ProgramError(f"{self.where} reads {buffer.name} before it is written")

    def _write(self, buffer: Buffer) -> None:
        self._use(buffer)
        self.written.add(buffer.name)

    def _use(self, buffer: Buffer) -> None:
        if not self._lives(buffer.name, self.tick):
            raise ProgramError(f"{self.where} uses {buffer.name} outside of its lifetime")

    def _body(self, body: Iterable, units: tuple[Unit, ...] = (None,), micro: int = 1) -> None:
        for node in body:
            if isinstance(node, Repeat):
                self._body(node.body, node.units or (None,), node.micro)
            elif isinstance(node, FitHead):
                self._head(node)
            elif isinstance(node, KeepHead):
                for name, buffer in node.arrays.items():
                    (self._write if name in node.stored else self._read)(buffer)
            else:
                for unit in units:
                    self._node(node, unit, micro)

    def _head(self, node: FitHead) -> None:
        if not node.reuses:
            self._body((node.batches,))
        for buffer in (*node.arrays.values(), node.left_out):
            self._write(buffer)

    def _node(self, node, unit: Unit | None, micro: int) -> None:
        if isinstance(node, Call):
            self._call(node, unit)
        elif isinstance(node, Read):
            self._write(unit.image)
        elif isinstance(node, Augment):
            self._read(unit.image)
            self._write(unit.augmented)
        elif isinstance(node, Load):
            self._body(node.computed, (unit,))
            for buffer in node.cache:
                self._read(buffer)
            self._write(unit.features)
        elif isinstance(node, Store):
            for buffer in node.cache:
                self._write(buffer)
        elif isinstance(node, Take):
            self._read(node.rows.view.buffer)
            self._write(unit.gradient)
        elif isinstance(node, Run):
            self._run(node, unit, micro)

    def _run(self, node: Run, unit: Unit, micro: int) -> None:
        self._use(unit.workspace)
        for key, segment in self.program.segments.items():
            if segment.kind != node.kind or segment.n > micro:
                continue
            if segment.nbytes > self.program.buffers[unit.workspace.name].nbytes:
                raise ProgramError(f"{self.where}: {segment.name} leaves {unit.workspace.name}")
            reads, writes = self.used[key]
            for buffer in reads:
                self._read(self._own(buffer, unit))
            for buffer in writes:
                self._write(self._own(buffer, unit))
        if isinstance(node.to, Rows):
            self._write(node.to.view.buffer)

    def _own(self, external: Buffer, unit: Unit) -> Buffer:
        """The program's buffer that stands for an external one of segments, for this unit."""
        own = {
            "input": unit.augmented, "features": unit.features, "grad embedding": unit.gradient,
            "gradients": unit.gradients,
        }  # fmt: skip
        return own.get(external.name) or self.program.buffers[external.name]

    def _call(self, call: Call, unit: Unit | None) -> None:
        check_call(call, self.where)
        for argument, array in zip(call.signature.arrays.values(), call.arrays, strict=True):
            buffer = _buffer_of(array)
            if buffer is None:
                continue
            if argument.is_read:
                self._read(buffer)
            else:
                self._use(buffer)
            if argument.is_written:
                self._write(buffer)


def _buffer_of(array) -> Buffer | None:
    """The program's buffer behind an argument; None for weights, small tables and arrays of a unit."""
    view = array.view if isinstance(array, Listed) else array
    return view.buffer if isinstance(view, View) else None
