"""Proves of a Program, without running it, that its memory is used as it must be.

Nothing is read before it is written, live buffers do not overlap, nothing is used outside of its lifetime or
its arena, and every call has arrays of the shapes and dtypes that its kernel takes.
"""

import math
from collections.abc import Callable, Iterable
from itertools import groupby

from segmentcheck import check_apart, check_call, check_segment, views_of

from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import Buffer, Call
from tinytrain.program.memory_planner import check
from tinytrain.program.program import Program
from tinytrain.program.signatures import SCRATCH
from tinytrain.program.stages import (
    Augment,
    FitHead,
    Items,
    KeepHead,
    Listed,
    Load,
    Of,
    Once,
    Repeat,
    Rows,
    Run,
    Stage,
    Store,
    Take,
    Unit,
    nodes,
)


def check_program(program: Program, segment_check: Callable | None = None) -> None:
    """Raise AssertionError, as a rule a ProgramError, unless every promise above holds.

    `segment_check` stands in for `check_segment`, for example one that remembers what it has checked.
    """
    check(program.layout)
    for interval in program.layout.intervals:
        if interval.nbytes != program.buffers[interval.name].nbytes:
            raise ProgramError(f"{interval.name} was placed with {interval.nbytes} bytes")
    segment_check = segment_check or check_segment
    used = {key: segment_check(segment) for key, segment in program.segments.items()}
    stages = _Stages(program, used)
    for times, group in groupby(program.stages, lambda stage: stage.times):
        repeated = list(group)
        for stage in repeated * min(times, 2):  # twice: a step follows another one
            stages.check(stage)


def _rows_of(node) -> list[Rows]:
    """Of which arrays a node reads or writes the rows of its micro-batch."""
    named = (getattr(node, "to", None), getattr(node, "rows", None), *getattr(node, "args", ()))
    return [rows for rows in named if isinstance(rows, Rows)]


class _Stages:
    """Which buffers of a program hold a value, stage after stage."""

    def __init__(self, program: Program, used: dict[tuple[str, int], tuple[set[Buffer], set[Buffer]]]):
        self.program, self.used = program, used
        self.written: set[str] = set()
        self.tick, self.where, self.has_output = -1, "", False
        every = (node for stage in program.stages for node in nodes(stage.body))
        self.counts = {node.items: node.count for node in every if isinstance(node, Repeat)}

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

    def _repeat(self, node: Repeat) -> None:
        if len({unit.workspace for unit in node.units}) < len(node.units):
            raise ProgramError(f"{self.where}: two workers have the same bytes")
        for unit in node.units:
            for buffer in (unit.features, unit.gradient):
                if buffer is not None and buffer.shape[0] < node.micro:
                    raise ProgramError(f"{self.where}: {node.micro} images do not fit {buffer.name}")
        self.has_output, ran = False, ""
        for part in node.body:
            for rows in _rows_of(part):
                if rows.view.shape[0] < self.counts[rows.within or node.items]:
                    raise ProgramError(f"{self.where}: {rows.view.buffer.name} has too few rows")
            if isinstance(part, Run):
                self._needed(part.kind, node)
                if part.kind == "back" and ran != "forward":
                    raise ProgramError(f"{self.where}: no forward pass is there to go back from")
                ran = part.kind
        self._body(node.body, node.units or (None,), node.micro)

    def _needed(self, kind: str, node: Repeat) -> None:
        """Raise unless there is a segment of `kind` for every number of images that comes up."""
        totals = [node.count]
        if node.items is Items.BATCH and (rest := self.program.task.n_support % node.count):
            totals.append(rest)
        for total in totals:
            for n in {min(node.micro, total - first) for first in range(0, total, node.micro)}:
                if (kind, n) not in self.program.segments:
                    raise ProgramError(f"{self.where}: there is no {kind} for {n} images")

    def _body(self, body: Iterable, units: tuple[Unit, ...] = (None,), micro: int = 1) -> None:
        for node in body:
            if isinstance(node, Repeat):
                self._repeat(node)
            elif isinstance(node, Once):
                self._body(node.body)
            elif isinstance(node, FitHead):
                self._head(node)
            elif isinstance(node, KeepHead):
                for buffer in node.arrays.values():
                    self._read(buffer)
            else:
                for unit in units:
                    self._node(node, unit, micro)

    def _head(self, node: FitHead) -> None:
        if not node.reuses:
            self._repeat(node.batches)
        for buffer in (*node.arrays.values(), node.left_out):
            self._write(buffer)

    def _node(self, node, unit: Unit | None, micro: int) -> None:
        if isinstance(node, Call):
            self._call(node, unit)
        elif isinstance(node, Augment):
            if unit.augmented:
                self._write(unit.augmented)
        elif isinstance(node, Load):
            self._body(node.computed, (unit,))
            for buffer in (*node.cache, *node.remembered):
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
        if node.kind == "prefix" and ("prefix", 1) not in self.program.segments:
            raise ProgramError(f"{self.where}: there is no prefix for 1 images")
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
        self.has_output = node.to is Of.OUTPUT
        if isinstance(node.to, Rows):
            self._write(node.to.view.buffer)

    def _own(self, external: Buffer, unit: Unit) -> Buffer:
        """The program's buffer that stands for an external one of segments, for this unit."""
        return unit.own(external) or self.program.buffers[external.name]

    def _call(self, call: Call, unit: Unit | None) -> None:
        check_call(call, self.where)
        if any(array is Of.OUTPUT for array in call.arrays) and not self.has_output:
            raise ProgramError(f"{self.where}: {call.kernel} reads an output that no segment left")
        for array in call.arrays:
            if isinstance(array, Listed) and array.extent[0] < self.counts.get(array.items, 0):
                raise ProgramError(
                    f"{self.where}: {call.kernel} has too few rows for the {array.items.value}"
                )
        pairs = views_of(call, unit)
        if not call.signature.in_place:
            check_apart(pairs, f"{self.where}: {call.kernel}")
        for argument, view in pairs:
            buffer = view.buffer
            if view.start < 0 or view.start + view.span > math.prod(buffer.shape):
                raise ProgramError(f"{self.where} uses elements of {buffer.name} that it does not have")
            if argument.is_read:
                self._read(buffer)
            if argument.mode == SCRATCH:
                self._use(buffer)
                self.written.discard(buffer.name)
            elif argument.is_written:
                self._write(buffer)
