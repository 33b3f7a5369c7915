"""Kernel calls of the first layer: matrix products of patches of some output rows of an image at a time.

Pixels are normalised while they are unfolded. `emitter` is the `Emitter` of the pass.
"""

from collections.abc import Iterator

import numpy as np

from tinytrain.program.autodiff import grouped_conv
from tinytrain.program.autodiff.matrix_products import add_bias, add_product, patches
from tinytrain.program.calls import View


def forward(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    for k in range(emitter.n):
        _forward_rows(emitter, i, _image(y, k), x.rows(k, k + 1), 0, activation)


def forward_rows(emitter, i: int, y: View, image: View, first: int) -> None:
    """y = output rows of the first layer from row `first` on, for one image, in row tiles."""
    _forward_rows(emitter, i, y, image, first, emitter.nodes[i].activation)


def _forward_rows(emitter, i: int, y: View, image: View, first: int, activation: str | None) -> None:
    room = patches(emitter, i, emitter.nodes[i].filter_hw[0])
    for a, b, part in _unfolded(emitter, i, room, image, (first, first + y.shape[0])):
        rows = y.rows(a - first, b - first).matrix
        emitter.segment.call("matmul", rows, part.matrix, emitter.weight(i))
        add_bias(emitter, i, rows, None, activation)


def grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    """The input is unfolded once more, in row tiles."""
    height = emitter.nodes[i].filter_hw[0]
    room = patches(emitter, i, height)
    for k in range(emitter.n):
        gk = _image(g, k)
        for a, b, part in _unfolded(emitter, i, room, x.rows(k, k + 1), (0, height)):
            add_product(emitter, gw, part.matrix, gk.rows(a, b).matrix)


trained_input = grouped_conv.trained_input  # all of the input


def _image(x: View, k: int) -> View:
    """Image k of x, without the axis of images."""
    return x.rows(k, k + 1).reshape(*x.shape[1:])


def _unfolded(
    emitter, i: int, room: View, image: View, rows: tuple[int, int]
) -> Iterator[tuple[int, int, View]]:
    """Output `rows` [first, last) in row tiles: (first, last, patches of the tile, which lie in `room`)."""
    layer, spec, (first, last) = emitter.nodes[i], emitter.network.input, rows
    norm = [np.tile(np.array(values, np.float32), layer.kernel[1]) for values in (spec.mean, spec.scale)]
    for a in range(first, last, room.shape[0]):
        b = min(a + room.shape[0], last)
        part = room.rows(0, b - a)
        whole, how = image.reshape(*spec.shape), (*layer.kernel, layer.stride[0], *layer.pad, a, spec.rotated)
        emitter.segment.call("unfold", part, whole, *how, *norm)
        yield a, b, part
