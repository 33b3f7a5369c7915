"""Kernel calls of dense convolutions of codes in int8: products of patches of some output rows at a time.

Padding is the code of 0. The first layer, which reads an image, is in `int8_ops`.
`emitter` is the `Int8Emitter` of the pass.
"""

from collections.abc import Iterator

import numpy as np

from tinytrain.program.autodiff import convolution
from tinytrain.program.autodiff.grouped_conv import trained_input
from tinytrain.program.autodiff.int8_ops import add, product
from tinytrain.program.autodiff.matrix_products import patches
from tinytrain.program.autodiff.ops import row
from tinytrain.program.calls import View


def forward(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    forward_padded(emitter, i, y, x, emitter.nodes[i].pad[0], activation)
    if skip is not None:
        add(emitter, i, y, y, skip)


def forward_padded(emitter, i: int, y: View, x: View, top: int, activation: str | None) -> None:
    """y (n, rows, width, cout) from the input rows x that they read, below `top` rows of padding."""
    for rows, part in _unfolded(emitter, i, y, x, top):
        product(emitter, i, rows, part, None, None)


def grad_input(emitter, i: int, g: View) -> View:
    layer, segment = emitter.nodes[i], emitter.segment
    gx, rows = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin), _rows(g)
    width = layer.filter_hw[1]
    count = max(1, min(rows.shape[0], emitter.patch_bytes // (4 * width * layer.fan_in)))
    room = segment.new(f"{layer.name} gradients of patches", count, width, layer.fan_in)
    for a, b in _tiles(rows, count):
        part = room.rows(0, b - a)
        arrays = part.matrix, rows.rows(a, b).matrix, emitter.weight(i), emitter.array(i, "scale")
        segment.call("grad_input_codes", *arrays, part="grad_input")
        how = *layer.kernel, layer.stride[0], *layer.pad, a, layer.filter_hw[0]
        segment.call("add_patches", gx, part, *how)
    return gx


def grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    """The input is unfolded once more, in row tiles."""
    codes = emitter.codes_read(i)
    for rows, part in _unfolded(emitter, i, g, x, emitter.nodes[i].pad[0]):
        how = np.float32(codes.scale), codes.zero
        emitter.segment.call("grad_weight_codes", gw, part.matrix, rows.matrix, *how, part="grad_weight")


def _unfolded(emitter, i: int, y: View, x: View, top: int) -> Iterator[tuple[View, View]]:
    """Some rows of y (n, rows, width, channels) after others, each with the patches of x that they read."""
    layer, rows = emitter.nodes[i], _rows(y)
    room = patches(emitter, i, rows.shape[0])
    for a, b in _tiles(rows, room.shape[0]):
        part = room.rows(0, b - a)
        how = layer.kernel[0], layer.stride[0], a, y.shape[1], top, emitter.codes_read(i).zero
        emitter.segment.call("unfold_plane_codes", part, x, *how)
        yield rows.rows(a, b), part


def _rows(y: View) -> View:
    """The rows of all images, one after another."""
    return y.reshape(-1, *y.shape[2:])


def _tiles(rows: View, count: int) -> list[tuple[int, int]]:
    """[first, last) of `count` rows at a time."""
    return [(a, min(a + count, rows.shape[0])) for a in range(0, rows.shape[0], count)]


DENSE = {
    "conv": row(
        convolution, forward=forward, grad_input=grad_input, grad_weight=grad_weight,
        trained_input=trained_input, forward_padded=forward_padded,
    )
}  # fmt: skip
