"""Calls of kernels as lines of C: a row for every kernel that the library has."""

from collections.abc import Callable
from dataclasses import replace

from tinytrain.codegen.int8_calls import INT8_CALLS
from tinytrain.codegen.line import Line, at, extent, of, total
from tinytrain.codegen.places import is_plain
from tinytrain.codegen.text import comment, shape
from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import View, Weight
from tinytrain.program.stages import Listed, Rows


def c_call(line: Line) -> str:
    """The call as a statement with a comment. Raises ProgramError for a kernel that the library lacks."""
    make = CALLS.get(line.call.kernel) or INT8_CALLS.get(line.call.kernel)
    if make is None:
        raise ProgramError(f"no kernel {line.call.kernel} in C")
    target = line.call.args[0]
    view = target.view if isinstance(target, Listed | Rows) else target
    said = f" {comment(f'{view.buffer.name}, {shape(view.extent)}')}" if isinstance(view, View) else ""
    return f"{make(line)};{said}"


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


def _depthwise(line: Line) -> str:
    y, x, kernel, stride, top, relu6 = (line.call.args[k] for k in (0, 1, 4, 5, 6, 7))
    geometry = line.places.shape(x.extent[1:], y.extent[1:], kernel, stride)
    return f"tt_depthwise({line.at(0)}, {line.at(1)}, {line.at(2)}, {geometry}, {top}, {int(relu6)})"


def _depthwise_back(line: Line) -> str:
    gx, _, g, w, kernel, stride = line.call.args
    geometry = line.places.shape(gx.extent[1:], g.extent[1:], kernel, stride)
    if isinstance(w, View):
        n = w.extent[1]
        return f"tt_depthwise_grad_some({line.at(0)}, {line.at(2)}, {line.at(3)}, {n}, {geometry}, {n})"
    return f"tt_depthwise_grad_input({line.at(0)}, {line.at(2)}, {line.at(3)}, {geometry})"


def _unfold(line: Line) -> str:
    y, image, kernel, stride, first, rotated = line.call.args[:6]
    geometry = line.places.shape(image.extent, y.extent, kernel, stride)
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


def _step(name: str) -> Callable[[Line], str]:
    """A step of the optimizer in the place of the gradient, and then of the parameters."""

    def both(line: Line) -> str:
        step = replace(line.call, kernel=f"{name}_step", args=line.call.args[1:])
        taken = f"tt_take_step({line.at(0)}, {line.at(1)}, {line.size(0)})"
        return f"{INT8_CALLS[step.kernel](Line(step, line.places))}; {taken}"

    return both


def _hard(line: Line) -> str:
    return "tt_hard"


CALLS: dict[str, Callable[[Line], str]] = {
    "accumulate": of("tt_accumulate", at(0), at(1), total(0)),
    "adam": _step("adam"),
    "add_bias": of("tt_add_bias", at(0), at(1), extent(0, 0)),
    "add_bias_relu6": of("tt_add_bias_relu6", at(0), at(1), extent(0, 0)),
    "add_bias_residual": of("tt_add_bias_residual", at(0), at(1), at(2), extent(0, 0)),
    "add_column_sums": of("tt_add_column_sums", at(0), at(1), extent(1, 0), extent(1, 1)),
    "add_fisher": of("tt_add_fisher", at(0), at(1), at(2), at(3), extent(2, 0), extent(2, 1)),
    "apply_mask": of("tt_apply_mask", at(0), at(1), total(0)),
    "assign": _assign,
    "class_sums": of("tt_class_sums", at(0), at(1), at(2), at(3), extent(2, 0), extent(2, 1)),
    "choose_queries": of("tt_choose_queries", _hard, at(0), at(1)),
    "clear": _clear,
    "copy": of("tt_copy", at(0), at(1), total(0)),
    "depthwise_forward": _depthwise,
    "depthwise_grad_input": _depthwise_back,
    "divide_rows": of("tt_divide_rows", at(0), at(1), at(2), extent(0, 0), extent(0, 1)),
    "gather_block": of("tt_gather_weights", at(0), at(1), at(3), extent(0, 1)),
    "gather_columns": of(
        "tt_gather_columns", at(0), at(1), at(2), extent(0, 0), extent(1, 1), extent(0, 1)
    ),
    "matmul": _matmul,
    "mix_prototypes": of(
        "tt_mix_prototypes", at(0), at(1), at(2), extent(1, 0), extent(1, 1), lambda line: "TT_SHOTS"
    ),
    "momentum": _step("momentum"),
    "pack_mask": of("tt_pack_mask", at(0), at(1), total(1)),
    "pool": of("tt_pool", at(0), at(1), extent(1, 1), extent(1, 2)),
    "pool_grad": of("tt_pool_grad", at(0), at(1), extent(0, 1), extent(0, 2)),
    "prototype_loss": _prototype_loss,
    "prototype_loss_grad": _prototype_loss_grad,
    "remember_losses": of("tt_remember_losses", at(0), _hard, at(1), total(1)),
    "rows_of_labels": of("tt_rows_of_labels", at(0), at(1), at(2), extent(0, 0), extent(0, 1)),
    "sgd": _step("sgd"),
    "start_losses": of("tt_start_losses", at(0)),
    "transposed": of("tt_transpose", at(0), at(1), extent(1, 0), extent(1, 1)),
    "unfold": _unfold,
}  # fmt: skip
