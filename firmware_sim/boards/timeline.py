"""The arena over time: which buffer holds which bytes during which calls, from the programs that ran.

Time is counted in stages; inside a stage, one pass of its calls takes from one whole number to the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinytrain.program.compile import AFTER, BACKWARD, BEFORE, EMBED, FILL, PREDICT, RESULT, cached_whole
from tinytrain.program.program import Program

STAGES = {
    FILL: "features",
    BEFORE: "head",
    EMBED: "embed",
    BACKWARD: "backward",
    AFTER: "head again",
    RESULT: "result",
    PREDICT: "queries",
}
# What a workspace runs, by the start of its name: kinds of segments, of each the one with most images.
WORK = {
    "workspace (probe": ("prefix", "embed", "tap"),
    "workspace (fill": ("prefix",),
    "workspace (embedding": ("frozen", "embed"),
    "workspace (head after": ("frozen", "embed"),
    "workspace (backward": ("frozen", "backward"),
    "workspace (queries": ("prefix", "embed 1"),
}
# What a buffer of a program is for, by the start of its name; activations are those in a workspace.
KINDS = {
    "cached": "cached features",
    "optimizer": "optimizer",
    "gradients": "gradients",
    "trained": "trained parameters",
    "scatter": "head",
    "head": "head",
    "image": "images",
    "augmented": "images",
}
ACTIVATIONS, OTHER = "activations", "other"


@dataclass(frozen=True)
class Block:
    """`nbytes` bytes at `offset` in use from `start` to `end`, in stages."""

    name: str
    kind: str
    start: float
    end: float
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Timeline:
    """Names of the stages, what holds bytes in them, and the bytes of the largest arena."""

    stages: tuple[str, ...]
    blocks: tuple[Block, ...]
    arena: int

    def live(self) -> list[tuple[float, int]]:
        """(time, bytes in use from then on), where it changes."""
        changes: dict[float, int] = {}
        for block in self.blocks:
            changes[block.start] = changes.get(block.start, 0) + block.nbytes
            changes[block.end] = changes.get(block.end, 0) - block.nbytes
        total, points = 0, []
        for time in sorted(changes):
            total += changes[time]
            points.append((time, total))
        return points


def timeline(programs: Sequence[Program]) -> Timeline:
    """Of the programs of one adaptation: that of Fisher scoring, if there was one, and that of training."""
    stages, blocks = [], []
    for program in programs:
        probes = "resources" not in program.detail
        names = ["probe"] if probes else list(STAGES.values())
        blocks += _blocks(program, len(stages))
        stages += names
    return Timeline(tuple(stages), tuple(blocks), max(p.nbytes for p in programs))


def _blocks(program: Program, first: int) -> Iterator[Block]:
    """Of one program whose ticks start at stage `first`."""
    for interval, offset in zip(program.layout.intervals, program.layout.offsets, strict=True):
        start, end = first + interval.first, first + interval.last + 1
        kinds = next((kinds for name, kinds in WORK.items() if interval.name.startswith(name)), None)
        if kinds is None:
            yield Block(interval.name, _kind(interval.name), start, end, offset, interval.nbytes)
            continue
        for stage in range(start, end):
            yield from _work(program, kinds, stage, offset)


def _kind(name: str) -> str:
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), OTHER)


def _work(program: Program, kinds: Sequence[str], stage: int, base: int) -> Iterator[Block]:
    """The buffers of the segments that run in a workspace at `base`, one pass of each."""
    segments = [s for kind in kinds if (s := _segment(program, kind)) is not None]
    length, done = sum(len(s.calls) for s in segments), 0
    for segment in segments:
        for interval, offset in zip(segment.layout.intervals, segment.layout.offsets, strict=True):
            last = min(interval.last, len(segment.calls) - 1)
            start, end = stage + (done + interval.first) / length, stage + (done + last + 1) / length
            yield Block(interval.name, ACTIVATIONS, start, end, base + offset, interval.nbytes)
        done += len(segment.calls)


def _segment(program: Program, kind: str):
    """The segment of `kind` with most images; None if there is none, or it need not run."""
    if kind == "frozen":
        kind = "none" if cached_whole(program.detail["resources"]) else "prefix"
    named = [s for name, s in program.segments.items() if name == kind or name.split()[0] == kind]
    return max(named, key=lambda segment: segment.n, default=None)
