"""A Program: segments, stages, buffers, and one layout in bytes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tinytrain.base.errors import one_line
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.backend import Backend
from tinytrain.program.calls import Buffer, Role, Segment
from tinytrain.program.memory_planner import Interval, Layout, place
from tinytrain.program.stages import STEP, Stage, Unit


@dataclass(frozen=True, eq=False)
class CompileTarget:
    """What a program was compiled for. `start`: the layer that features are the input of.

    One for training has a recipe and resources; one for Fisher scoring names the layers that it inspects; one
    for a forward pass has no task.
    """

    start: int
    task: TaskShape | None = None
    recipe: Recipe | None = None
    resources: Resources | None = None
    inspected: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """Segments by kind and number of images, and what runs them; buffers by name, and where each lies.

    `externals` are buffers of segments that every unit has for itself; `units` are the workers of a stage.
    """

    network: Network
    segments: dict[tuple[str, int], Segment]
    buffers: dict[str, Buffer]
    layout: Layout
    externals: dict[str, Buffer]
    units: dict[str, tuple[Unit, ...]]
    stages: tuple[Stage, ...]
    purpose: CompileTarget

    def __repr__(self) -> str:
        parts = f"{len(self.stages)} stages, {len(self.segments)} segments, {self.nbytes:,} bytes"
        return f"<Program for {one_line(self.network.name, 100)!r}: {parts}>"

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    @property
    def precision(self) -> str:
        """The name of its backend."""
        return self.backend.name

    @property
    def backend(self) -> Backend:
        return next(iter(self.segments.values())).backend

    @property
    def recipe(self) -> Recipe:
        return self.purpose.recipe

    @property
    def resources(self) -> Resources:
        return self.purpose.resources

    @property
    def task(self) -> TaskShape:
        return self.purpose.task

    @property
    def inspected(self) -> tuple[int, ...]:
        return self.purpose.inspected

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def with_recipe(self, recipe: Recipe) -> "Program":
        """The same program for a recipe that differs in the number of its steps."""
        stages = tuple(replace(s, times=recipe.n_steps) if s.name in STEP else s for s in self.stages)
        return replace(self, stages=stages, purpose=replace(self.purpose, recipe=recipe))

    def of(self, role: Role) -> Buffer:
        """The only buffer with this role."""
        return next(buffer for buffer in self.buffers.values() if buffer.role is role)

    def segments_of(self, kind: str) -> Iterator[Segment]:
        """Segments of one kind, for all numbers of images."""
        return (segment for (of, _), segment in self.segments.items() if of == kind)

    @cached_property
    def _places(self) -> dict[str, tuple[int, Interval]]:
        rows = zip(self.layout.offsets, self.layout.intervals, strict=True)
        return {interval.name: (offset, interval) for offset, interval in rows}

    def offset(self, name: str) -> int:
        """Byte offset of a buffer in the arena."""
        return self._places[name][0]

    def life(self, name: str) -> tuple[int, int]:
        """First and last tick of a buffer."""
        interval = self._places[name][1]
        return interval.first, interval.last

    def table(self) -> list[dict]:
        """Rows of the arena: name, offset, bytes, first and last tick."""
        rows = sorted(self._places.values(), key=lambda row: row[0])
        return [
            {"name": i.name, "offset": offset, "bytes": i.nbytes, "first": i.first, "last": i.last}
            for offset, i in rows
        ]


class BufferTable:
    """Collects the buffers of a program and places them."""

    def __init__(self):
        self.buffers: dict[str, Buffer] = {}
        self.lives: dict[str, tuple[int, int]] = {}

    def add(
        self, name: str, shape, first: int, last: int, dtype: str = "float32", role: Role = Role.OTHER
    ) -> Buffer:
        """A buffer that holds a value from tick `first` to tick `last`."""
        self.buffers[name] = Buffer(name, tuple(shape), dtype, role)
        self.lives[name] = (first, last)
        return self.buffers[name]

    def place(self, limit: float = math.inf) -> Layout | None:
        """Where the buffers lie; None if they take more than `limit` bytes."""
        return place([Interval(n, b.nbytes, *self.lives[n]) for n, b in self.buffers.items()], limit)
