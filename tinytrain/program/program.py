"""A Program: segments, buffers, and one layout in bytes."""

import math
from dataclasses import dataclass, field

from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.calls import Buffer, Segment
from tinytrain.program.memory_planner import Interval, Layout, place


@dataclass(frozen=True, eq=False)
class Program:
    """Segments by name, buffers by name with the ticks they live through, and where each lies."""

    network: Network
    segments: dict[str, Segment]
    buffers: dict[str, Buffer]
    layout: Layout
    externals: dict[str, Buffer]
    detail: dict = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    @property
    def recipe(self) -> Recipe:
        return self.detail["recipe"]

    @property
    def resources(self) -> Resources:
        return self.detail["resources"]

    @property
    def task(self) -> TaskShape:
        return self.detail["task"]

    @property
    def inspected(self) -> tuple[int, ...]:
        """The layers that the program of a probe measures."""
        return self.detail["inspected"]

    def offset(self, name: str) -> int:
        return self.detail["index"][name]

    def table(self) -> list[dict]:
        """Rows of the arena: name, offset, bytes, first and last tick."""
        return [
            {"name": i.name, "offset": o, "bytes": i.nbytes, "first": i.first, "last": i.last}
            for i, o in sorted(
                zip(self.layout.intervals, self.layout.offsets, strict=True), key=lambda r: r[1]
            )
        ]


class _Book:
    """Collects the buffers of a program and places them."""

    def __init__(self):
        self.buffers: dict[str, Buffer] = {}
        self.lives: dict[str, tuple[int, int]] = {}

    def add(self, name, shape, first, last, dtype="float32"):
        self.buffers[name] = Buffer(name, tuple(shape), dtype)
        self.lives[name] = (first, last)

    def finish(self, network, segments, externals, limit: float = math.inf) -> Program | None:
        """The program, None where it takes more than `limit` bytes."""
        intervals = [Interval(n, b.nbytes, *self.lives[n]) for n, b in self.buffers.items()]
        layout = place(intervals, limit)
        if layout is None:
            return None
        index = {i.name: o for i, o in zip(layout.intervals, layout.offsets, strict=True)}
        return Program(network, segments, self.buffers, layout, externals, {"index": index})
