"""Segments as functions of C: straight code over the workspace of a unit."""

from collections.abc import Iterator

from tinytrain.emit.kernel_calls import Line, c_call
from tinytrain.emit.places import C_TYPES, Places
from tinytrain.emit.text import comment
from tinytrain.program.calls import Segment


def function_of(segment: Segment, prefix: str) -> str:
    """The name of a segment's function."""
    return f"{prefix}_{segment.kind}"


def c_segment(segment: Segment, places: Places, prefix: str) -> Iterator[str]:
    """The function, which returns what the segment leaves, if it leaves anything."""
    kind = f"static {C_TYPES[segment.outputs[0].dtype]} *" if segment.outputs else "static void "
    sizes = f"{len(segment.calls)} calls, {segment.all_macs:,} MACs, {segment.nbytes:,} bytes of workspace"
    yield comment(f"{segment.name}: {sizes}")
    yield f"{kind}{function_of(segment, prefix)}(const tt_unit *u)"
    yield "{"
    for call in segment.calls:
        yield f"    {c_call(Line(call, places, segment))}"
    if segment.outputs:
        yield f"    return {places.array(segment.outputs[0], segment)};"
    yield "}"
    yield ""
