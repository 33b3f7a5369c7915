"""A program in the memory of a device: the same stages, other buffers, a layout of its own."""

from dataclasses import dataclass, fields, replace

from tinytrain.codegen.image_rows import ImageRows, image_rows
from tinytrain.program.calls import AFTER, BEFORE, PREDICT, Buffer, Role
from tinytrain.program.memory_planner import Interval, place
from tinytrain.program.program import Program

NOT_PLACED = (
    Role.OPTIMIZER,  # a moment becomes a float when it is used
    Role.RESULT,  # the trained parameters themselves stay
    Role.OUTSIDE,
    Role.LEFT_OUT_AFTER,  # takes the place of what was before
    Role.LENGTHS,  # for a delta of a refused adaptation
)
# Until when others are there: the trained parameters lie over the weights in flash.
LAST = {Role.PARAMETERS: PREDICT, Role.BIASES: PREDICT, Role.LEFT_OUT_BEFORE: AFTER}
GUARD = "room of the guard"  # of three embeddings


@dataclass(frozen=True, eq=False, repr=False)
class Placed(Program):
    """A program with only the buffers that a device has.

    Workspaces of the frozen part have room for rows of the caller's image.
    """

    image_rows: ImageRows


def placed(program: Program) -> Placed:
    """`program` with the buffers that a device has."""
    buffers = {n: b for n, b in program.buffers.items() if b.role not in NOT_PLACED}
    shown = image_rows(program)
    for name in shown.workspaces:
        size = max(buffers[name].nbytes, shown.end)
        buffers[name] = replace(buffers[name], shape=(size,))
    lives = {name: program.life(name) for name in buffers}
    if not program.inspected:
        buffers[GUARD] = Buffer(GUARD, (3, program.network.embedding_size))
        lives[GUARD] = BEFORE, AFTER
    intervals = [
        Interval(name, buffer.nbytes, lives[name][0], LAST.get(buffer.role, lives[name][1]))
        for name, buffer in buffers.items()
    ]
    parts = {f.name: getattr(program, f.name) for f in fields(program)}
    return Placed(**parts | {"buffers": buffers, "layout": place(intervals)}, image_rows=shown)
