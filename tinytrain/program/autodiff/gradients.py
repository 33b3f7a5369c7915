"""Kernel calls of the gradients of one layer: those of its input and of its trained parameters.

`emitter` is the `Emitter` of the pass.
"""

from tinytrain.program.autodiff import grouped_conv as emitgrouped
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import Columns, View

# Weight gradients of a pointwise layer pass through a scratch of at most this many bytes.
SCRATCH_BYTES = 16_384
# With at most so many positions and at least so many weights, and bytes for the gradient twice, the product
# is computed transposed. Otherwise BLAS copies all weights into another order, which takes longer than the
# product: OpenBLAS with AVX-512 has a faster way where the small matrix is the transposed one, of half the
# time at 4 x 4 positions, with the same bits. With AVX2 both take as long and differ in last bits (by trials
# that no command repeats).
FEW_POSITIONS, MANY_WEIGHTS = 32, 16_384


def trained_input(emitter, i: int, x: View, trained: Trained) -> View:
    """The channels of layer i's input that its weight gradient reads: a copy where they are some."""
    layer = emitter.layers[i]
    if layer.kind == "depthwise":
        count, columns = trained.channels, Columns(i, trained.channels or 0)
    else:
        count, columns = trained.inputs, Columns(i, trained.inputs or 0, "inputs")
    if count is None or count == x.shape[-1]:
        return x
    return _some_channels(emitter, x, f"{layer.name} saved input", count, columns)


def _some_channels(emitter, x: View, name: str, count: int, columns: Columns) -> View:
    """A copy of the `count` channels of x that `columns` names."""
    part = emitter.segment.new(name, *x.shape[:3], count)
    emitter.segment.call("gather_columns", part.matrix, x.matrix, columns)
    return part


def grad_input(emitter, i: int, g: View) -> View:
    """Gradient of the input of layer i, not a grouped one, from that of its convolution's output."""
    layer, segment = emitter.layers[i], emitter.segment
    gx = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin)
    if layer.kind == "depthwise":
        zeros = segment.new(f"{layer.name} zeros", layer.cout)
        segment.call(
            "depthwise_grad_input", gx, zeros, g, emitter.weight(i), layer.kernel, layer.stride,
            part="grad_input",
        )  # fmt: skip
    else:
        _grad_rows(emitter, i, gx.matrix, g.matrix)
    return gx


def _grad_rows(emitter, i: int, gx: View, g: View) -> None:
    """gx = g @ W^T, W the weights of layer i."""
    layer, segment = emitter.layers[i], emitter.segment
    if not emitter.roomy or g.shape[0] > FEW_POSITIONS or layer.n_weights < MANY_WEIGHTS:
        segment.call("matmul", gx, g, emitter.weight(i, transposed=True), part="grad_input")
        return
    turned = segment.new(f"{layer.name} gradient transposed", *gx.shape[::-1])
    segment.call("matmul", turned, emitter.weight(i), g.T, part="grad_input")
    segment.call("transpose", gx, turned)


def parameter_gradients(emitter, i: int, g: View, trained: Trained, x: View | None) -> None:
    """Add to the gradients of layer i, from its input x and its convolution's output gradient g."""
    layer, segment = emitter.layers[i], emitter.segment
    if trained.bias is not None:
        segment.call("add_column_sums", trained.bias, g.matrix)
    if trained.weight is None:
        return
    x = trained_input(emitter, i, x, trained)
    if trained.channels is not None:
        g = _some_channels(
            emitter, g, f"{layer.name} selected gradient", trained.channels, Columns(i, trained.channels)
        )
    if layer.kind == "depthwise":
        segment.call(
            "depthwise_grad_weight", trained.weight, x, g, layer.kernel, layer.stride, part="grad_weight"
        )  # fmt: skip
    elif layer.kind == "grouped":
        emitgrouped.grad_weight(emitter, i, trained.weight, x, g)
    elif layer.kind == "pointwise":
        _grad_matrix(emitter, trained.weight, x.matrix, g.matrix)
    else:
        _grad_dense(emitter, i, trained.weight, x, g)


def _grad_matrix(emitter, gw: View, x: View, g: View) -> None:
    """gw += x^T g, some rows at a time through a scratch: numpy's BLAS does not accumulate."""
    segment, (fan_in, count) = emitter.segment, gw.shape
    rows = max(1, min(fan_in, SCRATCH_BYTES // (4 * count)))
    scratch = segment.new("weight gradient scratch", rows, count)
    for first in range(0, fan_in, rows):
        last = min(first + rows, fan_in)
        part = scratch.rows(0, last - first)
        segment.call("matmul", part, x.columns(first, last).T, g, part="grad_weight")
        segment.call("accumulate", gw.rows(first, last).flat, part.flat)


def _grad_dense(emitter, i: int, gw: View, x: View, g: View) -> None:
    """gw += gradient of the weights of dense convolution i, its input unfolded again, by bands."""
    height = emitter.layers[i].out_hw[0]
    patches = emitter.patches(i, height)
    for k in range(emitter.n):
        gk = g.rows(k, k + 1).reshape(*g.shape[1:])
        for first, last, part in emitter.unfolded(patches, x.rows(k, k + 1), i, 0, height):
            _grad_matrix(emitter, gw, part.matrix, gk.rows(first, last).matrix)
