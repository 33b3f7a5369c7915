"""Calls of the kernels of int8 programs as lines of C, and of the steps of an optimizer."""

from collections.abc import Callable

from tinytrain.codegen.line import Line, at, extent, of, total
from tinytrain.kernels.reference_updates import SALT, SEED, STEP
from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import LayerArray, View


def _depthwise(line: Line) -> str:
    y, x, kernel, stride, top = (line.call.args[k] for k in (0, 1, 6, 7, 8))
    geometry = line.places.shape(x.extent[1:], y.extent[1:], kernel, stride)
    return f"tt_depthwise_codes({line.at(0)}, {line.at(1)}, {line.at(2)}, {geometry}, {top})"


def _unfold(line: Line) -> str:
    y, image, _, kernel, stride, first, rotated = line.call.args
    geometry = line.places.shape(image.extent, y.extent, kernel, stride)
    how = f"{first}, {y.extent[0]}, {int(rotated)}, tt_pixel_codes"
    return f"tt_unfold_codes({line.at(0)}, {line.at(1)}, {geometry}, {how})"


def _add(line: Line) -> str:
    how = line.places.constant("sum_of", *line.call.args[3:])
    return f"tt_add_codes({line.at(0)}, {line.at(1)}, {line.at(2)}, {line.size(0)}, {how})"


def _pool(line: Line) -> str:
    if line.extent(0)[0] != 1:
        raise ProgramError("no means of several images in C")
    sizes = f"{line.extent(1)[1]}, {line.extent(1)[2]}"
    return f"tt_pool_codes({line.at(0)}, {line.at(1)}, {sizes}, {line.at(2)}, {line.at(3)})"


def _depthwise_grad(line: Line) -> str:
    gx, _, g, _, _, kernel, stride = line.call.args
    geometry = line.places.shape(gx.extent[1:], g.extent[1:], kernel, stride)
    return f"tt_depthwise_grad_codes({', '.join(map(line.at, range(4)))}, {geometry})"


def _depthwise_grad_weight(line: Line) -> str:
    x, g, _, _, kernel, stride = line.call.args[1:]
    geometry = line.places.shape(x.extent[1:], g.extent[1:], kernel, stride)
    return f"tt_depthwise_grad_weight_codes({', '.join(map(line.at, range(5)))}, {geometry})"


def _depthwise_in_place(line: Line) -> str:
    shape = line.extent(0)[1:]
    geometry = line.places.shape(shape, shape, line.call.args[4], 1)
    return f"tt_depthwise_grad_in_place({', '.join(map(line.at, range(3)))}, {geometry})"


def _widen(line: Line) -> str:
    if line.at(3) != "0" or not (line.call.args[2] == 1).all():
        raise ProgramError("no values of codes but whole numbers in C")
    return f"tt_widen_codes({line.at(0)}, {line.at(1)}, {line.size(0)})"


def _gather(line: Line) -> str:
    _, _, rows, columns, _ = line.call.args
    inputs = line.at(2) if rows.of == "inputs" else "NULL"
    named = f"{inputs}, {rows.count}, {line.at(3)}, {columns.count}"
    return f"tt_gather_weight_codes({line.at(0)}, {line.at(1)}, {named})"


def _round(line: Line) -> str:
    w, rest, _, lsb, columns, _, rule, _, salt = line.call.args
    kept = line.at(1) if isinstance(rest, View) else "NULL"
    drawn = f"{salt * SALT & 0xFFFFFFFF}u + tt_step * {STEP}u + tt_rounding_seed * {SEED}u"
    arrays = f"{line.at(0)}, {kept}, {line.at(2)}, {_lsb(line, lsb)}, {w.extent[0]}, {line.at(4)}"
    return f"tt_round_codes({arrays}, {columns.count}, {drawn}, {rule})"


def _round_masters(line: Line) -> str:
    w, _, _, lsb, columns = line.call.args
    arrays = f"{line.at(0)}, {line.at(1)}, {line.at(2)}, {_lsb(line, lsb)}, {w.extent[0]}, {line.at(4)}"
    return f"tt_round_masters({arrays}, {columns.count})"


def _lsb(line: Line, lsb: LayerArray) -> str:
    """The layer, and whether steps are scaled."""
    return f"{line.places.layer(lsb)}, {int(lsb.name == 'lsb')}"


INT8_CALLS: dict[str, Callable[[Line], str]] = {
    "adam_step": of("tt_adam_step", at(0), at(1), at(2), at(4), at(5), extent(5, 0), at(6), at(7), at(8)),
    "add_codes": _add,
    "add_fisher_columns": of(
        "tt_add_fisher_columns", at(0), at(1), at(2), at(3), at(4), at(5), extent(3, 0), at(6), extent(3, 1),
        extent(2, 1),
    ),
    "copy_codes": of("tt_copy_codes", at(0), at(1), total(0)),
    "depthwise_codes": _depthwise,
    "depthwise_grad_in_place": _depthwise_in_place,
    "depthwise_grad_input_codes": _depthwise_grad,
    "depthwise_grad_weight_codes": _depthwise_grad_weight,
    "gather_codes": of("tt_gather_codes", at(0), at(1), at(2), extent(0, 0), extent(1, 1), extent(0, 1)),
    "gather_some": of(
        "tt_gather_some", at(0), at(1), at(2), extent(0, 0), extent(0, 1), at(3), extent(1, 1)
    ),
    "gather_weights": _gather,
    "grad_input_codes": of("tt_grad_input_codes", at(0), at(1), at(2), extent(0, 0)),
    "grad_input_columns": of(
        "tt_grad_input_columns", at(0), at(1), at(2), extent(0, 0), at(4), extent(0, 1)
    ),
    "grad_input_rows": of("tt_grad_input_rows", at(0), at(1), at(2), extent(0, 0), at(4), extent(1, 1)),
    "grad_weight_codes": of(
        "tt_grad_weight_codes", at(0), at(1), at(2), at(3), at(4), extent(1, 0), extent(1, 1), extent(2, 1)
    ),
    "grad_weight_columns": of(
        "tt_grad_weight_columns", at(0), at(1), at(2), at(3), at(4), extent(1, 0), extent(1, 1), extent(2, 1),
        at(5), extent(0, 1),
    ),
    "mask_columns": of("tt_mask_columns", at(0), at(1), extent(0, 0), at(2), extent(0, 1), at(3)),
    "momentum_step": of("tt_momentum_step", at(0), at(1), at(3), at(4), extent(4, 0), at(5)),
    "pack_inside": of("tt_pack_inside", at(0), at(1), total(1)),
    "pool_codes": _pool,
    "product_codes": of("tt_product_codes", at(0), at(1), at(2), extent(0, 0)),
    "product_wide": of("tt_product_wide", at(0), at(1), at(2), extent(0, 0)),
    "round_codes": _round,
    "round_masters": _round_masters,
    "sgd_step": of("tt_sgd_step", at(0), at(1), at(2), extent(2, 0)),
    "show_rows": of("tt_show_rows", at(0), at(1), extent(0, 0)),
    "take_step": of("tt_take_step", at(0), at(1), total(0)),
    "unfold_codes": _unfold,
    "widen_codes": _widen,
    "widen_columns": of("tt_widen_columns", at(0), at(1), at(3), extent(0, 1)),
}  # fmt: skip
