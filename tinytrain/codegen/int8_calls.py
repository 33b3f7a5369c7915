"""Calls of the kernels of int8 programs as lines of C."""

from collections.abc import Callable

from tinytrain.codegen.line import Line, of, shape, total
from tinytrain.kernels.reference_updates import SALT, SEED, STEP
from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import LayerArray, View


def _sum(line: Line) -> str:
    return line.places.constant("sum_of", *line.call.args[3:])


def _widen(line: Line) -> str:
    _, _, scale, zero = line.call.args
    if zero or (scale != 1).any():
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
    "add_codes": of("tt_add_codes", 0, 1, 2, total(0), _sum),
    "add_fisher_columns": of("tt_add_fisher_columns", 0, 1, 2, 3, 4, 5, (3, 0), 6, (3, 1), (2, 1)),
    "add_patches": of("tt_add_patches", 0, 1, shape(0, 1, 2, 4), 7, (1, 0)),
    "copy_codes": of("tt_copy_codes", 0, 1, total(0)),
    "depthwise_codes": of("tt_depthwise_codes", 0, 1, 2, shape(1, 0, 6, 7), 8),
    "depthwise_grad_in_place": of("tt_depthwise_grad_in_place", 0, 1, 2, shape(0, 0, 4)),
    "depthwise_grad_input_codes": of("tt_depthwise_grad_codes", 0, 1, 2, 3, shape(0, 2, 5, 6)),
    "depthwise_grad_weight_codes": of("tt_depthwise_grad_weight_codes", 0, 1, 2, 3, 4, shape(1, 2, 5, 6)),
    "gather_codes": of("tt_gather_codes", 0, 1, 2, (0, 0), (1, 1), (0, 1)),
    "gather_some": of("tt_gather_some", 0, 1, 2, (0, 0), (0, 1), 3, (1, 1)),
    "gather_weights": _gather,
    "grad_input_codes": of("tt_grad_input_codes", 0, 1, 2, (0, 0)),
    "grad_input_columns": of("tt_grad_input_columns", 0, 1, 2, (0, 0), 4, (0, 1)),
    "grad_input_rows": of("tt_grad_input_rows", 0, 1, 2, (0, 0), 4, (1, 1)),
    "grad_weight_codes": of("tt_grad_weight_codes", 0, 1, 2, 3, 4, (1, 0), (1, 1), (2, 1)),
    "grad_weight_columns": of("tt_grad_weight_columns", 0, 1, 2, 3, 4, (1, 0), (1, 1), (2, 1), 5, (0, 1)),
    "mask_columns": of("tt_mask_columns", 0, 1, (0, 0), 2, (0, 1), 3),
    "pack_inside": of("tt_pack_inside", 0, 1, total(1)),
    "pool_codes": of("tt_pool_codes", 0, 1, (1, 1), (1, 2), 2, 3),
    "product_codes": of("tt_product_codes", 0, 1, 2, (0, 0)),
    "product_wide": of("tt_product_wide", 0, 1, 2, (0, 0)),
    "round_codes": _round,
    "round_masters": _round_masters,
    "show_rows": of("tt_show_rows", 0, 1, (0, 0)),
    "unfold_codes": of("tt_unfold_codes", 0, 1, shape(1, 0, 3, 4), 5, (0, 0), 6, "tt_pixel_codes"),
    "unfold_plane_codes": of("tt_unfold_plane_codes", 0, 1, shape(1, 0, 2, 3), 4, (0, 0), 6, 7),
    "widen_codes": _widen,
    "widen_columns": of("tt_widen_columns", 0, 1, 3, (0, 1)),
}  # fmt: skip
