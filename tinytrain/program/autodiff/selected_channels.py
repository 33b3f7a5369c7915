"""Copies of the channels that a weight gradient reads, if it reads only some of them."""

from tinytrain.program.calls import Columns, View


def some_channels(emitter, x: View, name: str, columns: Columns) -> View:
    """A copy of the channels of x (n, height, width, channels) that `columns` names."""
    part = emitter.segment.new(name, *x.shape[:3], columns.count, dtype=x.dtype)
    gather = "gather_codes" if x.dtype == "int8" else "gather_columns"
    emitter.segment.call(gather, part.matrix, x.matrix, columns)
    return part


def trained_channels(emitter, i: int, x: View, columns: Columns | None) -> View:
    """Layer i's input x, or a copy of the channels in `columns` if these are not all."""
    if columns is None or columns.count == x.shape[-1]:
        return x
    return some_channels(emitter, x, f"{emitter.layers[i].name} saved input", columns)
