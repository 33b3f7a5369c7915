"""Kernel calls of squeeze and excitation.

A squeeze layer is a pointwise convolution of the mean over rows and columns. An excite layer is one of one
position, whose results are factors of the channels of its second input.

`emitter` is the `Emitter` of the pass.
"""

from collections.abc import Callable
from types import SimpleNamespace

from tinytrain.program.autodiff import convolution, pointwise
from tinytrain.program.autodiff.tape import Tape, Trained
from tinytrain.program.calls import View


def forward(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    pointwise.forward(emitter, i, y, _mean(emitter, i, x), skip, activation)


def grad_input(emitter, i: int, g: View) -> View:
    layer, segment = emitter.nodes[i], emitter.segment
    mean = segment.new(f"{layer.name} mean gradient", emitter.n, layer.cin)
    gx = segment.new(f"{layer.name} gradient", emitter.n, *layer.in_hw, layer.cin)
    segment.call("matmul", mean, g.matrix, emitter.weight(i, transposed=True), part="grad_input")
    segment.call("pool_grad", _positions(gx), mean)
    return gx


grad_weight = pointwise.grad_weight


def trained_input(emitter, i: int, x: View, trained: Trained) -> View:
    """The mean alone; x may be that already."""
    return x if x.shape[1:3] == (1, 1) else _mean(emitter, i, x)


def _excite(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    x, squeezed = inputs
    factors = convolution.apply(emitter, i, [x], tape)
    y = emitter.segment.activations(f"{emitter.nodes[i].name} scaled", *squeezed.shape)
    emitter.segment.call("scale_channels", _positions(y), _positions(squeezed), factors.matrix)
    if tape is not None and i in emitter.reached(tape):
        tape.scaled[i] = squeezed, factors
    return y


def _excite_gradients(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    segment, source = emitter.segment, emitter.sources[i][1]
    squeezed, factors = tape.scaled[i]
    name, found = f"{emitter.nodes[i].name} output gradient", []
    of_factors = segment.new(name, emitter.n, 1, 1, squeezed.shape[-1])
    segment.call("scale_channels_grad", of_factors.matrix, _positions(g), _positions(squeezed))
    if source in emitter.reached(tape):
        segment.call("scale_channels", _positions(g), _positions(g), factors.matrix)
        found.append((source, g))
    g = emitter.before_activation(i, of_factors, tape, False)
    return found + convolution.of_result(emitter, i, g, tape, hook)


EXCITE = SimpleNamespace(apply=_excite, gradients=_excite_gradients)


def _mean(emitter, i: int, x: View) -> View:
    mean = emitter.segment.activations(f"{emitter.nodes[i].name} mean", emitter.n, 1, 1, x.shape[-1])
    emitter.segment.call("pool", mean.matrix, _positions(x))
    return mean


def _positions(x: View) -> View:
    return x.reshape(x.shape[0], -1, x.shape[-1])
