"""Kernel calls of a squeeze layer: a pointwise convolution of the mean over rows and columns.

`emitter` is the `Emitter` of the pass. The layer behind it, which excites, is a pointwise convolution of one
position; `scaled` and `scaled_grad` multiply its result with the channels of what was squeezed.
"""

from tinytrain.program.autodiff import pointwise
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import View


def forward(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    pointwise.forward(emitter, i, y, _mean(emitter, i, x), skip, activation)


def grad_input(emitter, i: int, g: View) -> View:
    layer, segment = emitter.layers[i], emitter.segment
    mean = segment.new(f"{layer.name} mean gradient", emitter.n, layer.cin)
    gx = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin)
    segment.call("matmul", mean, g.matrix, emitter.weight(i, transposed=True), part="grad_input")
    segment.call("pool_grad", _positions(gx), mean)
    return gx


grad_weight = pointwise.grad_weight


def trained_input(emitter, i: int, x: View, trained: Trained) -> View:
    """The mean alone; x may be that already."""
    return x if x.shape[1:3] == (1, 1) else _mean(emitter, i, x)


def scaled(emitter, y: View, x: View, factors: View) -> None:
    """y = x times `factors` (n, 1, 1, channels); y may be x."""
    emitter.segment.call("scale_channels", _positions(y), _positions(x), factors.matrix)


def scaled_grad(emitter, i: int, g: View, x: View) -> View:
    """Gradient of the factors (n, 1, 1, channels) that excite layer i gives for x."""
    found = emitter.segment.new(f"{emitter.layers[i].name} output gradient", emitter.n, 1, 1, x.shape[-1])
    emitter.segment.call("scale_channels_grad", found.matrix, _positions(g), _positions(x))
    return found


def _mean(emitter, i: int, x: View) -> View:
    mean = emitter.segment.activations(f"{emitter.layers[i].name} mean", emitter.n, 1, 1, x.shape[-1])
    emitter.segment.call("pool", mean.matrix, _positions(x))
    return mean


def _positions(x: View) -> View:
    return x.reshape(x.shape[0], -1, x.shape[-1])
