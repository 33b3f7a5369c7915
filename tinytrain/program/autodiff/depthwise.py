"""Kernel calls of a depthwise convolution. `emitter` is the `Emitter` of the pass."""

from tinytrain.program.autodiff.activations import activate
from tinytrain.program.autodiff.matrix_products import trained_channels
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import Columns, View


def forward(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    """There is no residual depthwise layer: `skip` is None."""
    forward_padded(emitter, i, y, x, emitter.nodes[i].pad[0], activation)


def forward_padded(emitter, i: int, y: View, x: View, top: int, activation: str | None) -> None:
    """y = output rows of layer i; `top` rows of zeros lie above the input rows x that they read."""
    layer = emitter.nodes[i]
    emitter.segment.call(
        "depthwise_forward", y, x, emitter.weight(i), emitter.bias(i),
        layer.kernel[0], layer.stride[0], top, activation == "relu6",
    )  # fmt: skip
    activate(emitter, i, activation, y)


def grad_input(emitter, i: int, g: View) -> View:
    layer, segment = emitter.nodes[i], emitter.segment
    gx = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin)
    zeros = segment.new(f"{layer.name} zeros", layer.cout)
    segment.call(
        "depthwise_grad_input", gx, zeros, g, emitter.weight(i), layer.kernel[0], layer.stride[0],
        part="grad_input",
    )  # fmt: skip
    return gx


def grad_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    layer = emitter.nodes[i]
    emitter.segment.call(
        "depthwise_grad_weight", gw, x, g, layer.kernel[0], layer.stride[0], part="grad_weight"
    )


def trained_input(emitter, i: int, x: View, trained: Trained) -> View:
    """Every output channel reads the same channel of the input, so that those trained are enough."""
    some = trained.channels
    return trained_channels(emitter, i, x, None if some is None else Columns(emitter.numbers[i], some))
