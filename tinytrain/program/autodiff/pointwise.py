"""Kernel calls of a pointwise convolution: a matrix product. `emitter` is the `Emitter` of the pass."""

from tinytrain.program.autodiff.matrix_products import add_bias, add_product, trained_channels
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import Columns, View

# With at most so many positions and at least so many weights, the fast path computes the gradient of the
# input transposed, and has it in memory twice. Otherwise BLAS copies all weights into another order, which
# takes longer than the product.
FEW_POSITIONS, MANY_WEIGHTS = 32, 16_384


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
    rows, g = gx.matrix, g.matrix
    if emitter.fast_path and g.shape[0] <= FEW_POSITIONS and layer.n_weights >= MANY_WEIGHTS:
        turned = segment.new(f"{layer.name} gradient transposed", *rows.shape[::-1])
        segment.call("matmul", turned, emitter.weight(i), g.T, part="grad_input")
        segment.call("transpose", rows, turned)
    else:
        segment.call("matmul", rows, g, emitter.weight(i, transposed=True), part="grad_input")
    return gx


def grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    add_product(emitter, gw, x.matrix, g.matrix)


def trained_input(emitter, i: int, x: View, trained: Trained) -> View:
    some = trained.inputs
    return trained_channels(
        emitter, i, x, None if some is None else Columns(emitter.numbers[i], some, "inputs")
    )
