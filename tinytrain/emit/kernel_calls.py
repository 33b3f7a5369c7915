"""Calls of kernels as lines of C: a row for every kernel that the library has."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tinytrain.emit.places import Places, is_plain
from tinytrain.emit.text import comment, number, shape
from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import Bias, Call, Columns, Segment, Table, View, Weight, extent_of
from tinytrain.program.stages import Items, Listed, Of, Value

TABLES = {
    "starts": "tt_starts",
    "rates": "tt_rates",
    "images that a sampled one stands for": "tt_divisors[tt_step - 1]",
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
        if isinstance(arg, Weight | Bias):
            return self.places.layer(arg)
        if isinstance(arg, Columns):
            return self.places.columns(arg)
        if isinstance(arg, Table):
            return TABLES[arg.name]
        return {Value.STEP: "tt_step", Of.OUTPUT: "output"}.get(arg) or number(arg)

    def extent(self, k: int) -> tuple[int, ...]:
        arg = self.call.args[k]
        if isinstance(arg, Listed):
            return (self.counts[arg.items], *arg.extent[1:])
        return self.output.extent if arg is Of.OUTPUT else extent_of(arg)

    def size(self, k: int) -> int:
        return math.prod(self.extent(k))


def c_call(line: Line) -> str:
    """The call as a statement with a comment. Raises ProgramError for a kernel that the library lacks."""
    make = CALLS.get(line.call.kernel)
    if make is None:
        raise ProgramError(f"no kernel {line.call.kernel} in C")
    target = line.call.args[0]
    view = target.view if isinstance(target, Listed) else target
    said = f" {comment(f'{view.buffer.name}, {shape(view.extent)}')}" if isinstance(view, View) else ""
    return f"{make(line)};{said}"


def _of(name: str, *parts: Callable[[Line], object]) -> Callable[[Line], str]:
    """A call of `name` with these arguments."""
    return lambda line: f"{name}({', '.join(str(part(line)) for part in parts)})"


def at(k: int):
    return lambda line: line.at(k)


def extent(k: int, axis: int):
    return lambda line: line.extent(k)[axis]


def total(k: int):
    return lambda line: line.size(k)


def _matmul(line: Line) -> str:
    y, x, w = line.call.args
    if isinstance(w, Weight) and w.columns is None and is_plain(x):
        kernel = "tt_multiply_back" if w.transposed else "tt_multiply"
        return f"{kernel}({line.at(0)}, {line.at(1)}, {line.at(2)}, {y.extent[0]})"
    if isinstance(w, View) and is_plain(w) and x.transposed:
        first, last = x.column_range or (0, x.shape[1])
        begin = f"{line.at(1)} + {first}" if first else line.at(1)
        sizes = w.extent[0], last - first, x.shape[1], w.extent[1]
        return f"tt_multiply_transposed({line.at(0)}, {begin}, {line.at(2)}, {', '.join(map(str, sizes))})"
    raise ProgramError(f"no product of {x} and {w} in C")


def _shape(line: Line, x: tuple[int, ...], y: tuple[int, ...], kernel: int, stride: int) -> str:
    """A `tt_shape` of an input and an output (height, width, channels)."""
    return f"(tt_shape){{{x[0]}, {x[1]}, {x[2]}, {y[0]}, {y[1]}, {kernel}, {stride}}}"


def _depthwise(line: Line) -> str:
    y, x, kernel, stride, top, relu6 = (line.call.args[k] for k in (0, 1, 4, 5, 6, 7))
    geometry = _shape(line, x.extent[1:], y.extent[1:], kernel, stride)
    return f"tt_depthwise({line.at(0)}, {line.at(1)}, {line.at(2)}, {geometry}, {top}, {int(relu6)})"


def _depthwise_back(line: Line) -> str:
    gx, _, g, _, kernel, stride = line.call.args
    geometry = _shape(line, gx.extent[1:], g.extent[1:], kernel, stride)
    return f"tt_depthwise_grad_input({line.at(0)}, {line.at(2)}, {line.at(3)}, {geometry})"


def _unfold(line: Line) -> str:
    y, image, kernel, stride, first, rotated = line.call.args[:6]
    geometry = _shape(line, image.extent, y.extent, kernel, stride)
    how = f"{first}, {y.extent[0]}, {int(rotated)}, tt_mean, tt_scale"
    return f"tt_unfold({line.at(0)}, {line.at(1)}, {geometry}, {how})"


def _assign(line: Line) -> str:
    """From another buffer, or from a layer as it is in flash."""
    source = line.call.args[1]
    if isinstance(source, Weight):
        return f"tt_copy_weights({line.at(0)}, {line.at(1)})"
    given = f"{line.at(1)}.kept->bias" if not isinstance(source, View) else line.at(1)
    return f"tt_copy({line.at(0)}, {given}, {line.size(0)})"


def _clear(line: Line) -> str:
    if line.call.args[0].dtype == "float32":
        return f"tt_clear({line.at(0)}, {line.size(0)})"
    return f"memset({line.at(0)}, 0, sizeof *{line.at(0)} * {line.size(0)})"


def _prototype_loss(line: Line) -> str:
    arrays = ", ".join(map(line.at, range(6)))
    return f"tt_prototype_loss({arrays}, {_sizes(line, 3, 5)}, {line.at(6)})"


def _prototype_loss_grad(line: Line) -> str:
    arrays = ", ".join(map(line.at, range(5)))
    return f"tt_prototype_loss_grad({arrays}, {_sizes(line, 3, 4)}, {line.at(5)})"


def _sizes(line: Line, f: int, p: int) -> str:
    (rows, n), (ways, _) = line.extent(f), line.extent(p)
    return f"{rows}, {ways}, {n}"


def _adam(line: Line) -> str:
    arrays = ", ".join(map(line.at, (0, 1, 2, 3, 5, 6)))
    return f"tt_adam({arrays}, {line.extent(6)[0]}, {line.at(7)}, {line.at(8)}, {line.at(9)})"


def _momentum(line: Line) -> str:
    arrays = ", ".join(map(line.at, (0, 1, 2, 4, 5)))
    return f"tt_momentum({arrays}, {line.extent(5)[0]}, {line.at(6)})"


CALLS: dict[str, Callable[[Line], str]] = {
    "accumulate": _of("tt_accumulate", at(0), at(1), total(0)),
    "adam": _adam,
    "add_bias": _of("tt_add_bias", at(0), at(1), extent(0, 0)),
    "add_bias_relu6": _of("tt_add_bias_relu6", at(0), at(1), extent(0, 0)),
    "add_bias_residual": _of("tt_add_bias_residual", at(0), at(1), at(2), extent(0, 0)),
    "add_column_sums": _of("tt_add_column_sums", at(0), at(1), extent(1, 0), extent(1, 1)),
    "add_fisher": _of("tt_add_fisher", at(0), at(1), at(2), at(3), extent(2, 0), extent(2, 1)),
    "apply_mask": _of("tt_apply_mask", at(0), at(1), total(0)),
    "assign": _assign,
    "class_sums": _of("tt_class_sums", at(0), at(1), at(2), at(3), extent(2, 0), extent(2, 1)),
    "clear": _clear,
    "copy": _of("tt_copy", at(0), at(1), total(0)),
    "depthwise_forward": _depthwise,
    "depthwise_grad_input": _depthwise_back,
    "divide_rows": _of("tt_divide_rows", at(0), at(1), at(2), extent(0, 0), extent(0, 1)),
    "gather_block": _of("tt_gather_weights", at(0), at(1), at(3), extent(0, 1)),
    "gather_columns": _of(
        "tt_gather_columns", at(0), at(1), at(2), extent(0, 0), extent(1, 1), extent(0, 1)
    ),
    "matmul": _matmul,
    "mix_prototypes": _of(
        "tt_mix_prototypes", at(0), at(1), at(2), extent(1, 0), extent(1, 1), lambda line: "TT_SHOTS"
    ),
    "momentum": _momentum,
    "pack_mask": _of("tt_pack_mask", at(0), at(1), total(1)),
    "pool": _of("tt_pool", at(0), at(1), extent(1, 1), extent(1, 2)),
    "pool_grad": _of("tt_pool_grad", at(0), at(1), extent(0, 1), extent(0, 2)),
    "prototype_loss": _prototype_loss,
    "prototype_loss_grad": _prototype_loss_grad,
    "rows_of_labels": _of("tt_rows_of_labels", at(0), at(1), at(2), extent(0, 0), extent(0, 1)),
    "sgd": _of("tt_sgd", at(0), at(1), at(2), at(3), extent(3, 0)),
    "transposed": _of("tt_transpose", at(0), at(1), extent(1, 0), extent(1, 1)),
    "unfold": _unfold,
}  # fmt: skip
