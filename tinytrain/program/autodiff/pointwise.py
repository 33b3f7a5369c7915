"""Kernel calls of a pointwise convolution: a matrix product. `emitter` is the `Emitter` of the pass."""

from tinytrain.program.autodiff.matrix_products import add_bias, add_product, trained_channels
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import Columns, View


def forward(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    """Of any rows of any images."""
    rows = y.matrix
    emitter.segment.call("matmul", rows, x.matrix, emitter.weight(i))
    add_bias(emitter, i, rows, skip, activation)


def forward_rows(emitter, i: int, y: View, image: View, first: int) -> None:
    """y = output rows of layer i from row `first` on, for one image (height, width, channels)."""
    forward(emitter, i, y, image.rows(first, first + y.shape[0]), None, emitter.nodes[i].activation)


def grad_input(emitter, i: int, g: View) -> View:
    layer, segment = emitter.nodes[i], emitter.segment
    gx = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin)
    segment.call("matmul", gx.matrix, g.matrix, emitter.weight(i, transposed=True), part="grad_input")
    return gx


def grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    add_product(emitter, gw, x.matrix, g.matrix)


def trained_input(emitter, i: int, x: View, trained: Trained) -> View:
    some = trained.inputs
    return trained_channels(
        emitter, i, x, None if some is None else Columns(emitter.numbers[i], some, "inputs")
    )
