"""One call of a kernel, and how its arguments are written in C."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tinytrain.codegen.places import Places
from tinytrain.codegen.text import number
from tinytrain.program.calls import (
    Bias,
    Call,
    Columns,
    LayerArray,
    Role,
    Segment,
    Table,
    View,
    Weight,
    extent_of,
)
from tinytrain.program.stages import Items, Listed, Of, Rows, Value

TABLES = {
    Role.STARTS: "tt_starts",
    Role.RATES: "tt_rates",
    Role.DIVISORS: "tt_divisors[tt_step - 1]",
}


@dataclass(frozen=True, eq=False)
class Line:
    """One call and where its arguments lie."""

    call: Call
    places: Places
    segment: Segment | None = None
    output: View | None = None  # of the segment that ran before, if the call reads it
    counts: Mapping[Items, int] = field(default_factory=dict)  # lengths of lists

    def at(self, k: int) -> str:
        """Argument k as C has it."""
        arg = self.call.args[k]
        if isinstance(arg, View | Listed):
            return self.places.array(arg, self.segment)
        if isinstance(arg, Rows):  # of one image, number k of a list
            return f"{self.places.array(arg.view)} + k * {math.prod(arg.extent[1:])}"
        if isinstance(arg, Weight | Bias | LayerArray):
            return self.places.layer(arg)
        if isinstance(arg, Columns):
            return self.places.columns(arg)
        if isinstance(arg, Table):
            return TABLES[arg.role]
        return {Value.STEP: "tt_step", Of.OUTPUT: "output"}.get(arg) or number(arg)

    def extent(self, k: int) -> tuple[int, ...]:
        arg = self.call.args[k]
        if isinstance(arg, Rows):
            return (1, *arg.extent[1:])
        if isinstance(arg, Listed):
            return (self.counts[arg.items], *arg.extent[1:])
        return self.output.extent if arg is Of.OUTPUT else extent_of(arg)

    def size(self, k: int) -> int:
        return math.prod(self.extent(k))


def of(name: str, *parts) -> Callable[[Line], str]:
    """A call of `name` with `parts`: k is argument k, (k, axis) an extent of it, a text itself."""

    def written(part, line: Line):
        if isinstance(part, int):
            return line.at(part)
        if isinstance(part, tuple):
            return line.extent(part[0])[part[1]]
        return part(line) if callable(part) else part

    return lambda line: f"{name}({', '.join(str(written(part, line)) for part in parts)})"


def total(k: int):
    return lambda line: line.size(k)


def shape(x: int, y: int, kernel: int, stride: int | None = None):
    """The `tt_shape` of an input and an output, arguments as are kernel and stride (or 1)."""

    def written(line: Line) -> str:
        (*_, h, w, c), (*_, rows, columns, _), args = line.extent(x), line.extent(y), line.call.args
        how = args[kernel], 1 if stride is None else args[stride]
        return line.places.constant("shape", h, w, c, rows, columns, *how)

    return written
