"""ONNX operations that follow a convolution number by number, and max pooling.

The functions have the form of those in `tinytrain.backbones.onnx.operators`.
"""

import numpy as np

from tinytrain.backbones.onnx.graph import BRANCH, Value, Walk
from tinytrain.backbones.onnx.reading import Node, UnsupportedError
from tinytrain.backbones.onnx.tail import tail


def activated(walk: Walk, node: Node, activation: str) -> Value:
    """The value behind `activation`, which belongs to the last convolution, or to the classifier."""
    if walk.in_tail(node):
        return tail(walk, node)
    if _is_there(walk, node, activation):
        return walk.shared(node, walk.value(node))
    value = walk.newest(node, 0, ("linear", "sum") if activation == "relu" else ("linear",))
    part = walk.parts[value.part]
    if walk.is_open:
        raise UnsupportedError(BRANCH)
    if (part.kind == "excite") != (activation == "hard-sigmoid"):
        raise UnsupportedError(
            "HardSigmoid must follow the second Conv of a squeeze-and-excitation, and only that"
        )
    part.activation = activation
    return Value(value.part, "factors" if part.kind == "excite" else "active", value.channels, value.hw)


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


def hard_swish(walk: Walk, node: Node) -> Value:
    return activated(walk, node, "hard-swish")


def hard_sigmoid(walk: Walk, node: Node) -> Value:
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        raise UnsupportedError(f"alpha {alpha:g} and beta {beta:g}, not 1/6 and 0.5")
    return activated(walk, node, "hard-sigmoid")


def max_pool(walk: Walk, node: Node) -> Value:
    """Of windows of 3 x 3 with stride 2, padded by 1."""
    value = walk.newest(node, 0, ("active",))
    part = walk.parts[value.part]
    if part.activation not in ("relu", "relu6") or any(node.outputs[1:]):
        raise UnsupportedError("it must follow a ReLU or ReLU6, and give nothing but the largest values")
    shape = (
        node.get("kernel_shape", [0, 0], 2),
        node.get("strides", [1, 1], 2),
        node.get("dilations", [1, 1], 2),
    )
    if shape != ([3, 3], [2, 2], [1, 1]) or node.get("auto_pad", "NOTSET") != "NOTSET":
        raise UnsupportedError("only windows of 3 x 3 with stride 2, padded by 1, are supported")
    walk.fit_padding(1, (3, 2), node.get("pads", [0] * 4, 4), value.hw)
    part.max_pool = True
    hw = tuple((side + 1) // 2 for side in value.hw)
    return Value(value.part, "largest", value.channels, hw)


def _bound(walk: Walk, node: Node, position: int, key: str) -> float:
    """A bound of Clip: an input since opset 11, an attribute before."""
    if position < len(node.inputs) and node.inputs[position]:
        return float(walk.constant(node, position, (), key))
    return node.get(key, -np.inf if key == "min" else np.inf)


ACTIVATIONS = {
    "Clip": clip,
    "Relu": relu,
    "HardSwish": hard_swish,
    "HardSigmoid": hard_sigmoid,
    "MaxPool": max_pool,
}
