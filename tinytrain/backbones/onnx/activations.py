"""ONNX operations that follow a convolution number by number.

The functions have the form of those in `tinytrain.backbones.onnx.operators`.
"""

from dataclasses import replace

import numpy as np

from tinytrain.backbones.onnx.graph import Value, Walk
from tinytrain.backbones.onnx.reading import Node, UnsupportedError
from tinytrain.backbones.onnx.tail import tail
from tinytrain.network.validation import BEHIND_SUMS

LOWEST = float(np.finfo(np.float32).min)


def activated(walk: Walk, node: Node, activation: str, attributes: tuple = ()) -> Value:
    """The value behind `activation`, which belongs to a convolution, or to the classifier."""
    if walk.in_tail(node):
        return tail(walk, node)
    if _is_there(walk, node, activation):
        return walk.shared(node, walk.value(node))
    value = walk.changing(node, 0, ("linear", "sum") if activation in BEHIND_SUMS else ("linear",))
    part = walk.parts[value.part]
    part.activation, part.attributes = activation, attributes
    return replace(value, stage="factors" if part.kind == "excite" else "active")


def _is_there(walk: Walk, node: Node, activation: str) -> bool:
    """Whether the codes of a quantised model have the values clamped as `activation` does."""
    value = walk.value(node)
    if (value.part, "active") not in walk.noted:
        return False
    return walk.parts[value.part].activation in (activation, "relu6" if activation == "relu" else None)


def clip(walk: Walk, node: Node) -> Value:
    bounds = _bound(walk, node, 1, "min"), _bound(walk, node, 2, "max")
    if bounds not in ((0, 6), (0, np.inf)):
        raise UnsupportedError(f"bounds {bounds[0]:g} and {bounds[1]:g}, not 0 and 6")
    return activated(walk, node, "relu6" if bounds == (0, 6) else "relu")


def relu(walk: Walk, node: Node) -> Value:
    return activated(walk, node, "relu")


def gelu(walk: Walk, node: Node) -> Value:
    if node.get("approximate", "none") != "none":
        raise UnsupportedError("it is approximated by a tanh")
    return activated(walk, node, "gelu")


def hard_swish(walk: Walk, node: Node) -> Value:
    return activated(walk, node, "hard-swish")


def hard_sigmoid(walk: Walk, node: Node) -> Value:
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        raise UnsupportedError(f"alpha {alpha:g} and beta {beta:g}, not 1/6 and 0.5")
    return activated(walk, node, "hard-sigmoid")


def leaky_relu(walk: Walk, node: Node) -> Value:
    slope = node.get("alpha", 0.01)
    if not 0 < slope < 1:
        raise UnsupportedError(f"alpha is {slope:g}, not between 0 and 1")
    return activated(walk, node, "leaky-relu", (("slope", float(slope)), ("floor", LOWEST)))


def maximum(walk: Walk, node: Node) -> Value:
    """What a leaky ReLU gives and a number below 0, whichever is larger."""
    position = int(bool(node.inputs) and node.inputs[0] in walk.constants)
    value = walk.changing(node, position, ("active",))
    part, array = walk.parts[value.part], walk.constant(node, 1 - position, None, "constant")
    if part.activation != "leaky-relu" or array.size != 1 or array.max() > 0:
        raise UnsupportedError("only a leaky ReLU and a number below 0 are supported")
    floor = max(dict(part.attributes)["floor"], float(array.reshape(())))
    part.attributes = (part.attributes[0], ("floor", floor))
    return value


def _bound(walk: Walk, node: Node, position: int, key: str) -> float:
    """A bound of Clip: an input since opset 11, an attribute before."""
    if position < len(node.inputs) and node.inputs[position]:
        return float(walk.constant(node, position, (), key))
    return node.get(key, -np.inf if key == "min" else np.inf)


ACTIVATIONS = {
    "Clip": clip,
    **dict.fromkeys(("Gelu", "com.microsoft.Gelu"), gelu),
    "Relu": relu,
    "HardSwish": hard_swish,
    "HardSigmoid": hard_sigmoid,
    "LeakyRelu": leaky_relu,
    "Max": maximum,
}
