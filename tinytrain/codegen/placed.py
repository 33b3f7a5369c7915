"""A program in the memory of a device: the same stages, other buffers, a layout of its own."""

from dataclasses import dataclass, fields, replace

from tinytrain.codegen.image_rows import ImageRows, image_rows
from tinytrain.program.calls import Buffer
from tinytrain.program.memory_planner import Interval, place
from tinytrain.program.program import Program
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
class Placed(Program):
    """A program with only the buffers that a device has.

    Workspaces of the frozen part have room for rows of the caller's image.
    """

    image_rows: ImageRows


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
    parts = {f.name: getattr(program, f.name) for f in fields(program)}
    return Placed(**parts | {"buffers": buffers, "layout": place(intervals)}, image_rows=shown)
