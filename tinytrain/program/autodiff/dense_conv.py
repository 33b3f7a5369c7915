"""Kernel calls of the first layer: matrix products of what its filters read of some rows of an image.

Pixels are normalised once for all filters that read them. `emitter` is the `Emitter` of the pass.
"""

from collections.abc import Iterator

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
    room = image_rows(emitter, i, y.shape[0])
    for a, b, windows in _windows(emitter, i, room, image, (first, first + y.shape[0])):
        rows = y.rows(a - first, b - first).matrix
        emitter.segment.call("matmul", rows, windows, emitter.weight(i))
        add_bias(emitter, i, rows, None, activation)


def grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    """The input enters once more, in row tiles."""
    height = emitter.nodes[i].filter_hw[0]
    room = image_rows(emitter, i, height)
    for k in range(emitter.n):
        gk = _image(g, k)
        for a, b, windows in _windows(emitter, i, room, x.rows(k, k + 1), (0, height)):
            add_product(emitter, gw, windows, gk.rows(a, b).matrix)


trained_input = grouped_conv.trained_input  # all of the input


def _image(x: View, k: int) -> View:
    """Image k of x, without the axis of images."""
    return x.rows(k, k + 1).reshape(*x.shape[1:])


def image_rows(emitter, i: int, count: int) -> View:
    """Memory for the image rows, with padding, that some of `count` output rows read.

    These are as many as would fill a row tile if what each filter reads were copied: calls stay few.
    """
    layer, stride = emitter.nodes[i], emitter.nodes[i].stride[0]
    tile = patches(emitter, i, count).shape[:2]
    height, width = ((n - 1) * stride + size for n, size in zip(tile, layer.kernel, strict=True))
    return emitter.segment.activations(f"{layer.name} image rows", height, width, layer.cin)


def _windows(
    emitter, i: int, room: View, image: View, rows: tuple[int, int]
) -> Iterator[tuple[int, int, View]]:
    """Output `rows` [first, last) in row tiles: (first, last, what they read, which lies in `room`)."""
    layer, spec, (first, last) = emitter.nodes[i], emitter.network.input, rows
    (size, _), stride, (top, side) = layer.kernel, layer.stride[0], layer.pad
    tile = (room.shape[0] - size) // stride + 1
    for a in range(first, last, tile):
        b = min(a + tile, last)
        part = room.rows(0, (b - a - 1) * stride + size)
        how = a * stride - top, side, spec.rotated
        emitter.segment.call("enter", part, image.reshape(*spec.shape), *how, *spec.of_row)
        yield a, b, part.windows(layer.kernel, stride)
