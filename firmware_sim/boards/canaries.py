"""An arena with canaries around every buffer: a kernel that writes outside its arrays is caught in the act.

The program is placed again, every buffer with 64 bytes more on either side. The canaries of the buffers that
a call names are set before it and looked at after it, so buffers may still share bytes one after the other.
"""

from dataclasses import replace

import numpy as np

from tinytrain.base.arena import Arena
from tinytrain.program.calls import Buffer, Segment
from tinytrain.program.memory_planner import Interval, Layout, place
from tinytrain.program.program import Program

MARGIN = 64
CANARY = np.uint8(0xA5)
PATTERN = CANARY.tobytes() * MARGIN


class CanaryError(AssertionError):
    """A kernel wrote outside of the buffers that it was given: a bug, not something a user can cause."""


class Canaries:
    """The margins of one buffer."""

    def __init__(self, before: np.ndarray, after: np.ndarray):
        self.before, self.after = before, after

    def set(self) -> None:
        self.before.fill(CANARY)
        self.after.fill(CANARY)

    def whole(self) -> bool:
        return self.before.tobytes() == PATTERN == self.after.tobytes()


class Guarded(np.ndarray):
    """An array in a `GuardedArena` that knows the canaries of its buffer, and so do all views of it."""

    canaries: Canaries | None

    def __array_finalize__(self, origin):
        # A copy or the result of a computation has memory of its own, around which there are none.
        same = self.base is not None and (self.base is origin or self.base is origin.base)
        self.canaries = getattr(origin, "canaries", None) if same else None


class GuardedArena(Arena):
    """An arena for a program that `with_margins` placed."""

    def view(self, offset: int, shape: tuple[int, ...], dtype) -> np.ndarray:
        plain = super().view(offset, shape, dtype)
        end = offset + plain.nbytes
        guarded = plain.view(Guarded)
        guarded.canaries = Canaries(self._bytes[offset - MARGIN : offset], self._bytes[end : end + MARGIN])
        return guarded


def with_margins(program: Program) -> Program:
    """The same calls on buffers with a margin before and behind each, inside segments and between them."""
    segments = {name: _spread(segment) for name, segment in program.segments.items()}
    workspaces = {unit.workspace.name for units in program.units.values() for unit in units}
    room = max((s.nbytes for s in segments.values()), default=0)
    buffers = {
        name: Buffer(name, (max(room, b.nbytes),), "uint8") if name in workspaces else b
        for name, b in program.buffers.items()
    }
    lives = program.layout.intervals
    layout = place([Interval(i.name, buffers[i.name].nbytes + 2 * MARGIN, i.first, i.last) for i in lives])
    inner = tuple(Interval(i.name, buffers[i.name].nbytes, i.first, i.last) for i in lives)
    layout = Layout(inner, tuple(offset + MARGIN for offset in layout.offsets), layout.nbytes)
    return replace(program, segments=segments, buffers=buffers, layout=layout)


def _spread(segment: Segment) -> Segment:
    layout = segment.layout
    wider: Layout = place(
        [Interval(i.name, i.nbytes + 2 * MARGIN, i.first, i.last) for i in layout.intervals]
    )
    offsets = {b: o + MARGIN for b, o in zip(segment.offsets, wider.offsets, strict=True)}
    return replace(segment, layout=wider, offsets=offsets)


def guarded_call(name: str, kernel, args: tuple):
    """Call `kernel` and raise CanaryError if it wrote around one of its arrays; returns the canaries seen."""
    watched = {id(c): c for a in args if (c := getattr(a, "canaries", None)) is not None}
    for canaries in watched.values():
        canaries.set()
    kernel(*(a.view(np.ndarray) if isinstance(a, Guarded) else a for a in args))
    for k, a in enumerate(args):
        canaries = getattr(a, "canaries", None)
        if canaries is not None and not canaries.whole():
            raise CanaryError(f"kernel {name} wrote outside argument {k}, an array of shape {a.shape}")
    return 2 * len(watched)
