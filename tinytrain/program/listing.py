"""A Program as text that a person can read: the arena, the stages, and every call of every segment."""

from collections.abc import Iterator

import numpy as np

from tinytrain.program.calls import Bias, Buffer, Call, Columns, LayerArray, Segment, Table, View, Weight
from tinytrain.program.mac_counts import stage_macs
from tinytrain.program.program import Program
from tinytrain.program.stages import (
    Augment,
    FitHead,
    KeepHead,
    Listed,
    Load,
    Of,
    Once,
    Read,
    Repeat,
    Rows,
    Run,
    Stage,
    Store,
    Take,
    Value,
)

INDENT = "  "


def listing(program: Program) -> str:
    """The whole program, with offsets, bytes and MACs."""
    return "\n".join([*_arena(program), *_stages(program), *_segments(program)])


def _arena(program: Program) -> Iterator[str]:
    yield f"ARENA, {program.nbytes:,} bytes (a buffer lives from its first tick to its last)"
    yield f"{'offset':>10} {'bytes':>10}  ticks  buffer"
    for row in program.table():
        buffer = program.buffers[row["name"]]
        shape = " x ".join(map(str, buffer.shape))
        ticks = f"{row['first']}-{row['last']}"
        yield f"{row['offset']:>10,} {row['bytes']:>10,}  {ticks:>5}  {buffer.name}, {shape} {buffer.dtype}"


# ---- stages --------------------------------------------------------------------------------------


def _stages(program: Program) -> Iterator[str]:
    yield ""
    yield "STAGES"
    for stage in program.stages:
        yield _heading(program, stage)
        yield from _body(stage.body, INDENT)


def _heading(program: Program, stage: Stage) -> str:
    times = "once" if stage.times == 1 else f"{stage.times} times"
    macs = stage_macs(program, stage)
    return f"{stage.name}, tick {stage.tick}, {times}" + (f", {macs:,} MACs in all" if macs else "")


def _body(body: tuple, indent: str) -> Iterator[str]:
    for node in body:
        yield indent + _line(node)
        if isinstance(node, FitHead):
            yield from _body((node.batches,), indent + INDENT)
        elif isinstance(node, Repeat | Once):
            yield from _body(node.body, indent + INDENT)
        elif isinstance(node, Load):
            yield from _body(node.computed, indent + INDENT)


def _line(node) -> str:
    if isinstance(node, Call):
        return _call(node)
    if isinstance(node, Repeat):
        workers = len(node.units)
        many = f" on up to {workers} workers" if workers > 1 else ""
        at_once = f", {node.micro} at a time" if node.micro > 1 else ""
        return f"for {node.count} {node.items.value}{at_once}{many}:"
    if isinstance(node, Once):
        return "for the first one only:"
    if isinstance(node, FitHead):
        arrays = ", ".join(b.name for b in node.arrays.values())
        return f"fit a {node.kind} head to {len(node.views)} views into {arrays}:"
    if isinstance(node, KeepHead):
        return f"keep the head: {', '.join(b.name for b in node.arrays.values())}"
    if isinstance(node, Load):
        kept = f" or {node.remembered[0].name}" if node.remembered else ""
        if not node.cache:
            return f"load features, computed{kept}:"
        rest = ", or else computed:" if node.computed else ""
        return f"load features from {node.cache[0].name}{kept}{rest}"
    if isinstance(node, Store):
        return f"store features in {node.cache[0].name}"
    if isinstance(node, Take):
        return f"take rows of {_argument(node.rows.view)} as gradient"
    if isinstance(node, Run):
        to = f" -> {_argument(node.to.view)}, its rows" if isinstance(node.to, Rows) else ""
        return f"run {node.kind}{to}"
    return {Read: "read the image", Augment: "augment it"}[type(node)]


# ---- segments ------------------------------------------------------------------------------------


def _segments(program: Program) -> Iterator[str]:
    for segment in program.segments.values():
        yield ""
        macs = f"{segment.all_macs:,} MACs"
        yield f"SEGMENT {segment.name}: {len(segment.calls)} calls, {segment.nbytes:,} bytes, {macs}"
        for number, call in enumerate(segment.calls):
            macs = f"  {call.macs:,} MACs" if call.macs else ""
            yield f"{number:>5}  {_call(call, segment)}{macs}"


def _call(call: Call, segment: Segment | None = None) -> str:
    names = list(call.signature.arrays)
    parts = [f"{name}={_argument(a, segment)}" for name, a in zip(names, call.args, strict=False)]
    parts += [_argument(a) for a in call.args[len(names) :]]
    return f"{call.kernel}({', '.join(parts)})"


def _argument(arg, segment: Segment | None = None) -> str:
    if isinstance(arg, View):
        return _place(arg.buffer, arg, segment) + _shape(arg)
    if isinstance(arg, Listed):
        return f"{_argument(arg.view)}[one for each of the {arg.items.value}]"
    if isinstance(arg, Rows):
        return f"{_argument(arg.view)}[its rows]"
    if isinstance(arg, Weight):
        return f"weight {arg.layer}" + _shape(arg)
    if isinstance(arg, Bias):
        return f"bias {arg.layer}" + _shape(arg)
    if isinstance(arg, LayerArray):
        return f"{arg.name} {arg.layer}" + _shape(arg)
    if isinstance(arg, Columns):
        return f"{arg.of} of layer {arg.layer}" + _shape(arg)
    if isinstance(arg, Table):
        return f"'{arg.role.value}'"
    if isinstance(arg, Of | Value):
        return arg.value
    if isinstance(arg, np.ndarray):  # a table of constants
        return f"[{' x '.join(map(str, arg.shape))} {arg.dtype}]"
    return f"{arg:g}" if isinstance(arg, float | np.floating) else str(getattr(arg, "value", arg))


def _place(buffer: Buffer, view: View, segment: Segment | None) -> str:
    """A buffer by its name, those of a segment with the offset of the view in the workspace."""
    first = f"+{view.start}" if view.start else ""
    if segment is None or buffer not in segment.offsets:
        return f"'{buffer.name}'{first}"
    return f"'{buffer.name}'@{segment.offsets[buffer]}{first}"


def _shape(array) -> str:
    return f"[{' x '.join(map(str, array.extent))}]"
