"""Kernel calls of activations and of their gradients; ReLU6 itself is a part of kernels that add biases.

`emitter` is the `Emitter` of the pass, i the node that the activation follows.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.network.node import ACTIVATIONS
from tinytrain.program.calls import View

INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True)
class Activation:
    """Kernels of an activation: ``kernel(y, x, *numbers)`` and ``gradient(g, kept, *numbers)``.

    The numbers are those that `ACTIVATIONS` names. What the gradient needs, `keeps` says: the "input" or the
    "output", or the kernel that makes a bit for each number of the output: whether a gradient passes.
    `kernel` is None if those that add biases clamp, too; with `in_place` it has no x.
    """

    kernel: str | None
    gradient: str = "apply_mask"
    keeps: str = INPUT
    in_place: bool = False


ROWS = {
    "relu6": Activation(None, keeps="pack_mask"),
    "relu": Activation("relu", keeps="pack_positive", in_place=True),
    "gelu": Activation("gelu", "gelu_grad"),
    "hard-swish": Activation("hard_swish", "hard_swish_grad"),
    "hard-sigmoid": Activation("hard_sigmoid", "hard_sigmoid_grad"),
    "leaky-relu": Activation("leaky_relu", "leaky_relu_grad", OUTPUT),
}


def activate(emitter, i: int, activation: str | None, y: View, x: View | None = None) -> None:
    """y = activation of x, or in place; what has passed through ReLU6 already stays."""
    if activation and (row := ROWS[activation]).kernel:
        arrays = (y.flat,) if row.in_place else (y.flat, (y if x is None else x).flat)
        emitter.segment.call(row.kernel, *arrays, *_numbers(emitter, i))


def keeps_of(activation: str | None) -> str | None:
    """What the gradient of the activation needs, as in `Activation`."""
    return activation and ROWS[activation].keeps


def kept(emitter, i: int, y: View) -> View:
    """What the gradient of the activation of node i needs, from its output y (or input, if it keeps that)."""
    node, segment = emitter.nodes[i], emitter.segment
    if (keeps := ROWS[node.activation].keeps) in (INPUT, OUTPUT):
        return y
    bits = segment.new(f"{node.name} mask", -(-y.size // 8), dtype="uint8")
    segment.call(keeps, bits, y.flat)
    return bits


def activation_grad(emitter, i: int, g: View, kept: View) -> None:
    """g *= derivative of the activation, from what is `kept`."""
    row = ROWS[emitter.nodes[i].activation]
    array = kept if row.gradient == "apply_mask" else kept.flat
    emitter.segment.call(row.gradient, g.flat, array, *_numbers(emitter, i))


def _numbers(emitter, i: int) -> tuple[np.float32, ...]:
    node = emitter.nodes[i]
    return tuple(map(np.float32, node.numbers(*ACTIVATIONS[node.activation])))
