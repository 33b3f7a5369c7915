"""The arena over time: which buffer holds which bytes during which calls, from the programs that ran.

Time is counted in stages; inside a stage, one pass of its calls takes from one whole number to the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tinytrain.program.calls import AFTER, BACKWARD, BEFORE, EMBED, FILL, PREDICT, RESULT, Role, Segment
from tinytrain.program.program import Program
from tinytrain.program.stages import Repeat, Run, nodes

STAGES = {
    FILL: "features",
    BEFORE: "head",
    EMBED: "embed",
    BACKWARD: "backward",
    AFTER: "head again",
    RESULT: "result",
    PREDICT: "queries",
}
ACTIVATIONS = "activations"  # in a workspace
KINDS = {
    Role.CACHE: "cached features", Role.KEPT_FEATURES: "cached features",
    Role.PARAMETERS: "trained parameters", Role.BIASES: "trained parameters",
    Role.ROUNDING: "trained parameters", Role.GRADIENTS: "gradients",
    Role.MOMENTS: "optimizer", Role.OPTIMIZER: "optimizer",
    Role.HEAD: "head", Role.LENGTHS: "head", Role.IMAGE: "images",
}  # fmt: skip


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
        names = ["probe"] if program.inspected else list(STAGES.values())
        blocks += _blocks(program, len(stages))
        stages += names
    return Timeline(tuple(stages), tuple(blocks), max(p.nbytes for p in programs))


def _blocks(program: Program, first: int) -> Iterator[Block]:
    """Of one program whose ticks start at stage `first`."""
    workspaces = {unit.workspace.name for units in program.units.values() for unit in units}
    for interval, offset in zip(program.layout.intervals, program.layout.offsets, strict=True):
        start, end = first + interval.first, first + interval.last + 1
        if interval.name not in workspaces:
            kind = KINDS.get(program.buffers[interval.name].role, "other")
            yield Block(interval.name, kind, start, end, offset, interval.nbytes)
            continue
        segments = _largest(program, interval.name)
        for stage in range(start, end):
            yield from _work(segments, stage, offset)


def _largest(program: Program, workspace: str) -> list[Segment]:
    """The segments that run in a workspace, in their order; of each kind the one with most images."""
    found: dict[str, Segment] = {}
    for stage in program.stages:
        for repeat in (node for node in nodes(stage.body) if isinstance(node, Repeat)):
            if not any(unit.workspace.name == workspace for unit in repeat.units):
                continue
            for node in nodes(repeat.body):
                if isinstance(node, Run):
                    some = (s for s in program.segments_of(node.kind) if s.n <= repeat.micro)
                    found[node.kind] = max(some, key=lambda segment: segment.n)
    # A pass in two halves is one pass: they share their bytes.
    behind = {segment.after: segment for segment in found.values() if segment.after}
    firsts = (segment for segment in found.values() if not segment.after)
    return [replace(s, calls=[*s.calls, *behind[s].calls]) if s in behind else s for s in firsts]


def _work(segments: Sequence[Segment], stage: int, base: int) -> Iterator[Block]:
    """The buffers of the segments that run in a workspace at `base`, one pass of each."""
    length, done = sum(len(s.calls) for s in segments), 0
    for segment in segments:
        for interval, offset in zip(segment.layout.intervals, segment.layout.offsets, strict=True):
            last = min(interval.last, len(segment.calls) - 1)
            start, end = stage + (done + interval.first) / length, stage + (done + last + 1) / length
            yield Block(interval.name, ACTIVATIONS, start, end, base + offset, interval.nbytes)
        done += len(segment.calls)
