"""Calls of kernels as lines of C: a row for every kernel that the library has."""

from collections.abc import Callable

from tinytrain.codegen.int8_calls import INT8_CALLS
from tinytrain.codegen.line import Line, of, shape, total
from tinytrain.codegen.places import is_plain
from tinytrain.codegen.text import by, comment
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
    if not isinstance(view, View):
        return f"{make(line)};"
    return f"{make(line)}; {comment(f'{view.buffer.name}, {by(view.extent)}')}"


def _matmul(line: Line) -> str:
    y, x, w = line.call.args
    if isinstance(w, Weight) and w.columns is None and len(x.shape) == 4:
        sizes = line.places.constant("windows", *x.shape, *x.steps[:3])
        return f"tt_multiply_windows({line.at(0)}, {line.at(1)}, {line.at(2)}, {sizes})"
    if isinstance(w, Weight) and w.columns is None and is_plain(x):
        kernel = "tt_multiply_back" if w.transposed else "tt_multiply"
        return f"{kernel}({line.at(0)}, {line.at(1)}, {line.at(2)}, {y.extent[0]})"
    raise ProgramError(f"no product of {x} and {w} in C")


def _add_matmul(line: Line) -> str:
    y, x, w = line.call.args
    if not (x.steps == (1, x.extent[0]) and is_plain(y) and is_plain(w)):
        raise ProgramError(f"no sum of {y} and the product of {x} and {w} in C")
    sizes = w.extent[0], *y.extent
    return f"tt_add_transposed({line.at(0)}, {line.at(1)}, {line.at(2)}, {', '.join(map(str, sizes))})"


def _depthwise_back(line: Line) -> str:
    """With all channels, or with some that were gathered."""
    w, geometry = line.call.args[3], shape(0, 2, 4, 5)
    if isinstance(w, View):
        return of("tt_depthwise_grad_some", 0, 2, 3, (3, 1), geometry, (3, 1))(line)
    return of("tt_depthwise_grad_input", 0, 2, 3, geometry)(line)


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


def _enter(line: Line) -> str:
    """Of codes of an image, or of values, which a filter of one pixel reads."""
    if line.call.args[1].dtype == "uint8":
        sizes = line.places.constant("shape", *line.extent(1), *line.extent(0)[:2], 1, 1)
        return of("tt_enter_rows", 0, 1, sizes, 2, 3, 4, "tt_mean", "tt_scale")(line)
    if line.extent(0) != line.extent(1):
        raise ProgramError("no filters of several values in C")
    return of("tt_enter", 0, 1, total(0), "tt_mean", "tt_scale")(line)


CALLS: dict[str, Callable[[Line], str]] = {
    "accumulate": of("tt_accumulate", 0, 1, total(0)),
    "adam_step": of("tt_adam_step", 0, 1, 2, 4, 5, (5, 0), 6, 7, 8),
    "add_bias": of("tt_add_bias", 0, 1, (0, 0)),
    "add_bias_relu6": of("tt_add_bias_relu6", 0, 1, (0, 0)),
    "add_bias_residual": of("tt_add_bias_residual", 0, 1, 2, (0, 0)),
    "add_column_sums": of("tt_add_column_sums", 0, 1, (1, 0), (1, 1)),
    "add_fisher": of("tt_add_fisher", 0, 1, 2, 3, (2, 0), (2, 1)),
    "add_matmul": _add_matmul,
    "apply_mask": of("tt_apply_mask", 0, 1, total(0)),
    "assign": _assign,
    "choose_queries": of("tt_choose_queries", "tt_hard", 0, 1),
    "class_sums": of("tt_class_sums", 0, 1, 2, 3, (2, 0), (2, 1)),
    "clear": _clear,
    "copy": of("tt_copy", 0, 1, total(0)),
    "depthwise_forward": of("tt_depthwise", 0, 1, 2, shape(1, 0, 4, 5), 6, 7),
    "depthwise_grad_input": _depthwise_back,
    "divide_rows": of("tt_divide_rows", 0, 1, 2, (0, 0), (0, 1)),
    "enter": _enter,
    "gather_block": of("tt_gather_weights", 0, 1, 3, (0, 1)),
    "gather_columns": of("tt_gather_columns", 0, 1, 2, (0, 0), (1, 1), (0, 1)),
    "matmul": _matmul,
    "mix_prototypes": of("tt_mix_prototypes", 0, 1, 2, (1, 0), (1, 1), "TT_SHOTS"),
    "momentum_step": of("tt_momentum_step", 0, 1, 3, 4, (4, 0), 5),
    "pack_mask": of("tt_pack_mask", 0, 1, total(1)),
    "pool": of("tt_pool", 0, 1, (1, 1), (1, 2)),
    "pool_grad": of("tt_pool_grad", 0, 1, (0, 1), (0, 2)),
    "prototype_loss": of("tt_prototype_loss", 0, 1, 2, 3, 4, 5, (3, 0), (5, 0), (3, 1), 6),
    "prototype_loss_grad": of("tt_prototype_loss_grad", 0, 1, 2, 3, 4, (3, 0), (4, 0), (3, 1), 5),
    "remember_losses": of("tt_remember_losses", 0, "tt_hard", 1, total(1)),
    "rows_of_labels": of("tt_rows_of_labels", 0, 1, 2, (0, 0), (0, 1)),
    "sgd_step": of("tt_sgd_step", 0, 1, 2, (2, 0)),
    "start_losses": of("tt_start_losses", 0),
    "take_step": of("tt_take_step", 0, 1, total(0)),
    "transposed": of("tt_transpose", 0, 1, (1, 0), (1, 1)),
}  # fmt: skip
