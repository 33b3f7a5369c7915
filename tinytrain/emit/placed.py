"""A program in the memory of a device: the same stages, other buffers, a layout of its own."""

from dataclasses import dataclass, replace

from tinytrain.emit.image_rows import ImageRows, image_rows
from tinytrain.plan.recipe import Resources
from tinytrain.program.calls import Buffer, Segment
from tinytrain.program.memory_planner import Interval, Layout, place
from tinytrain.program.program import Program
from tinytrain.program.stages import Stage, Unit
from tinytrain.program.ticks import AFTER, BEFORE, PREDICT

# Beginnings of the names of buffers that are not placed.
NOT_PLACED = (
    "optimizer workspace",  # a moment becomes a float when it is used
    "result",  # the trained parameters themselves stay
    "beside the arena",  # what numpy and Python take
    "left out (after)",  # what is left out again takes the place of what was before
    "head before, cosine: lengths",  # for a delta of a refused adaptation
)
# Until when others are there: the trained parameters lie over the weights in flash.
LAST = {"trained parameters": PREDICT, "trained biases": PREDICT, "left out (before)": AFTER}
GUARD = "room of the guard"  # of three embeddings


@dataclass(frozen=True, eq=False)
class Placed:
    """`program` with only the `buffers` that a device has, at the places of `layout`.

    Workspaces of the frozen part have room for rows of the caller's image.
    """

    program: Program
    buffers: dict[str, Buffer]
    layout: Layout
    image_rows: ImageRows

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    @property
    def segments(self) -> dict[tuple[str, int], Segment]:
        return self.program.segments

    @property
    def externals(self) -> dict[str, Buffer]:
        return self.program.externals

    @property
    def units(self) -> dict[str, tuple[Unit, ...]]:
        return self.program.units

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.program.stages

    @property
    def resources(self) -> Resources:
        return self.program.resources

    def stage(self, name: str) -> Stage:
        return self.program.stage(name)

    def rows(self) -> list[tuple[int, Interval]]:
        """Offsets and lifetimes of all buffers, in the order of memory."""
        found = zip(self.layout.offsets, self.layout.intervals, strict=True)
        return sorted(found, key=lambda row: (row[0], row[1].first))


def placed(program: Program) -> Placed:
    """`program` with the buffers that a device has."""
    buffers = {n: b for n, b in program.buffers.items() if not n.startswith(NOT_PLACED)}
    shown = image_rows(program)
    for name in shown.workspaces:
        size = max(buffers[name].nbytes, shown.end)
        buffers[name] = replace(buffers[name], shape=(size,))
    lives = {name: program.life(name) for name in buffers}
    if "left out (before)" in buffers:
        buffers[GUARD] = Buffer(GUARD, (3, program.network.embedding_size))
        lives[GUARD] = BEFORE, AFTER
    intervals = [
        Interval(name, buffer.nbytes, lives[name][0], LAST.get(name, lives[name][1]))
        for name, buffer in buffers.items()
    ]
    return Placed(program, buffers, place(intervals), shown)
