"""Multiply-accumulates of stages, counted from the calls that they make: the one place where this is done."""

from tinytrain.program.program import Program
from tinytrain.program.stages import FitHead, Load, Repeat, Run, Stage


def stage_macs(program: Program, stage: Stage) -> int:
    """Multiply-accumulates of the network in all runs of a stage; those of loss and heads are left out."""
    return stage.times * sum(_macs(program, node) for node in stage.body)


def macs_by_part(program: Program) -> dict[str, int]:
    """Those of all stages, by the part of the adaptation that they count to."""
    found: dict[str, int] = {}
    for stage in program.stages:
        if stage.part:
            found[stage.part] = found.get(stage.part, 0) + stage_macs(program, stage)
    return found


def _macs(program: Program, node) -> int:
    """Of a node that stands alone, or of one image of the list that it is repeated for."""
    if isinstance(node, Repeat):
        return _repeated(program, node, node.computed)
    if isinstance(node, FitHead):
        (batch,) = node.batches.body
        count, sets = node.batches.count, program.resources.sets
        views = () if node.reuses else (*node.views, *[0] * node.looks)
        once = Repeat(batch.items, count, batch.body)
        return sum(_repeated(program, once, 0 if 0 <= view < sets else count) for view in views)
    if isinstance(node, Run):
        segment = next(program.segments_of(node.kind))
        return segment.all_macs // segment.n
    return 0


def _repeated(program: Program, node: Repeat, computed: int) -> int:
    """Of all items of a list, `computed` of which have no features in the cache."""
    total = 0
    for part in node.body:
        if isinstance(part, Load):
            items = computed if part.cache else node.count
            total += items * sum(_macs(program, inner) for inner in part.computed)
        elif isinstance(part, Repeat) and not node.units:  # batches: the list is gone over once
            whole = Repeat(part.items, node.count, part.body)
            total += _repeated(program, whole, node.count if part.computed else 0)
        else:
            total += node.count * _macs(program, part)
    return total
