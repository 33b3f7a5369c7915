"""What kinds of layers share: patches, biases, gradients of weight matrices, copies of some channels."""

from tinytrain.program.autodiff.activations import activate
from tinytrain.program.calls import Columns, View


def patches(emitter, i: int, count: int) -> View:
    """Memory for what convolution i reads for some of `count` output rows: (rows, width, fan_in)."""
    layer, itemsize = emitter.nodes[i], emitter.segment.backend.itemsize
    width = layer.filter_hw[1]
    rows = min(count, emitter.patch_bytes // (itemsize * width * layer.fan_in))
    return emitter.segment.activations(f"{layer.name} patches", max(1, rows), width, layer.fan_in)


def add_bias(emitter, i: int, rows: View, skip: View | None, activation: str | None) -> None:
    """Add the bias of layer i to its output `rows` (m, cout), and `skip`; then comes the activation."""
    segment, bias = emitter.segment, emitter.bias(i)
    if skip is not None:
        segment.call("add_bias_residual", rows, bias, skip.matrix)
    elif activation == "relu6":
        segment.call("add_bias_relu6", rows, bias)
    else:
        segment.call("add_bias", rows, bias)
    activate(emitter, i, activation, rows)


def add_product(emitter, gw: View, x: View, g: View) -> None:
    """gw += x^T g."""
    emitter.segment.call("add_matmul", gw, x.T, g, part="grad_weight")


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
    return some_channels(emitter, x, f"{emitter.nodes[i].name} saved input", columns)
