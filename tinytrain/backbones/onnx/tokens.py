"""ONNX operations of transformers: on tokens, which are the positions of a feature map one after another.

The axes of a `Value` of tokens are letters: n images, p positions, c channels; if these are divided between
heads, k heads of d channels. The functions have the form of those in `tinytrain.backbones.onnx.operators`.
"""

import math
from dataclasses import replace

import numpy as np

from tinytrain.backbones.onnx.graph import READ, Part, Value, Walk
from tinytrain.backbones.onnx.reading import Node, UnsupportedError
from tinytrain.backbones.onnx.tail import tail

SPLIT = "nkpd"  # queries and values where they are multiplied


def tokens_of(walk: Walk, node: Node) -> list[Value]:
    """Inputs of `node` that are tokens."""
    found = (walk.values.get(name) for name in node.inputs)
    return [value for value in found if value is not None and "p" in value.axes]


def _sizes(value: Value, heads: int) -> dict[str, int]:
    positions = value.hw[0] * value.hw[1]
    return {"n": 1, "p": positions, "c": value.channels, "k": heads, "d": value.channels // heads}


def reshape(walk: Walk, node: Node) -> Value:
    """A feature map becomes tokens; channels are divided between heads, and put together again."""
    value = walk.values.get(node.inputs[0])
    target = walk.constants.get(node.inputs[-1])
    if value is None or value.stage not in READ[1:] or target is None or walk.in_tail(node):
        return tail(walk, node)
    sides = [1, *target.ravel().tolist()[1:]]
    whole = value.channels * value.hw[0] * value.hw[1]
    sides = [whole // -math.prod(sides) if side == -1 else side for side in sides]
    heads = sides[2] if len(sides) == 4 else 1
    after = {"nchw": "ncp", "npc": "npkd", "npkd": "npc"}.get(value.axes)
    if after is None or (value.channels % heads if heads > 0 else True):
        return tail(walk, node)
    if sides != [_sizes(value, heads)[axis] for axis in after]:
        return tail(walk, node)
    return walk.shared(node, replace(value, axes=after, heads=heads if after == "npkd" else 1))


def matmul(walk: Walk, node: Node) -> Value:
    if len(node.inputs) == 2 and node.inputs[1] in walk.constants and tokens_of(walk, node):
        return _dense(walk, node)
    if len(tokens_of(walk, node)) != 2:
        return tail(walk, node)
    x, y = (walk.value(node, k) for k in range(2))
    if (x.axes, y.axes) == (SPLIT, "nkdp") and (x.heads, x.hw, x.channels) == (y.heads, y.hw, y.channels):
        return replace(x, stage="scores", pair=(x, y), factor=x.factor * y.factor, axes="nkpp")
    if x.stage == "shares" and (x.axes, y.axes) == ("nkpp", SPLIT):
        query, key = x.pair
        numbers = (("heads", float(x.heads)), ("scale", x.factor))
        part = Part("attention", (query, key, y), y.hw, attributes=numbers)
        return replace(walk.add(node, part, "joined"), axes=SPLIT, heads=x.heads)
    if x.stage == "shares" and (x.axes, y.axes, x.hw) == ("ncp", "npc", y.hw):
        walk.pooled = node.outputs[0]
        return walk.add(node, Part("sequence-pool", (y, x), (1, 1)), "pooled")
    raise UnsupportedError(f"it multiplies {x.axes} by {y.axes}, neither attention nor a weighted mean")


def _dense(walk: Walk, node: Node) -> Value:
    """A product with a constant: a pointwise convolution."""
    value, weight = walk.value(node), walk.constant(node, 1, None, "weight")
    if (
        value.axes != "npc"
        or value.stage not in READ[1:]
        or weight.ndim != 2
        or len(weight) != value.channels
    ):
        raise UnsupportedError(f"it multiplies {value.channels} channels by {weight.shape}")
    part = Part("pointwise", (value,), value.hw, weight.T[:, :, None, None], np.zeros(weight.shape[1]))
    return replace(walk.add(node, part, "linear"), axes="npc")


def add_constant(walk: Walk, node: Node) -> Value:
    """A bias, or a number for each place of tokens."""
    position = int(node.inputs[0] in walk.constants)
    value, array = walk.value(node, position), walk.constant(node, 1 - position, None, "constant")
    places = (value.hw[0] * value.hw[1], value.channels)
    if value.axes == "npc" and array.size == value.channels and array.shape[-1:] == places[1:]:
        part = walk.parts[walk.changing(node, position, ("linear", "sum")).part]
        part.bias = part.bias + array.reshape(-1)
        return value
    if value.axes != "npc" or array.shape[-2:] != places or array.size != math.prod(places):
        raise UnsupportedError(f"it adds a constant of shape {array.shape} to {places} tokens")
    weight = array.reshape(places).T[:, :, None, None]
    part = Part("position", (value,), value.hw, weight, np.zeros(value.channels))
    return replace(walk.add(node, part, "joined"), axes="npc")


def scaled(walk: Walk, node: Node) -> Value:
    """Queries, keys or their products times a number: how steep attention is, which is checked there."""
    (value,) = tokens_of(walk, node)
    position = int(node.inputs[0] in walk.constants)
    array = walk.constant(node, 1 - position, None, "factor")
    if array.size != 1 or "k" not in value.axes:
        raise UnsupportedError("only what attention compares can be multiplied by one number")
    number = float(array.reshape(()))
    value = walk.changing(node, position, (*READ[1:], "scores"))
    return replace(value, factor=value.factor * (number if node.op == "Mul" else 1 / number))


def softmax(walk: Walk, node: Node) -> Value:
    if not tokens_of(walk, node):
        return tail(walk, node)
    value = walk.value(node)
    last = node.get("axis", -1) in (-1, len(value.axes) - 1)
    if not last or not (value.stage == "scores" or (value.axes == "ncp" and value.channels == 1)):
        raise UnsupportedError("it is neither attention nor a weighted mean")
    return replace(walk.changing(node, 0, (*READ[1:], "scores")), stage="shares")


def layer_norm(walk: Walk, node: Node) -> Value:
    value = walk.value(node)
    if value.axes != "npc" or value.stage not in READ[1:] or node.get("axis", -1) not in (-1, 2):
        raise UnsupportedError("only tokens are normalised over their channels")
    scale, bias = (walk.constant(node, k, (value.channels,), what) for k, what in ((1, "scale"), (2, "bias")))
    numbers = (("epsilon", float(node.get("epsilon", 1e-5))),)
    part = Part("layer-norm", (value,), value.hw, scale[:, None, None, None], bias, attributes=numbers)
    return replace(walk.add(node, part, "joined"), axes="npc")


TOKENS = {"LayerNormalization": layer_norm, "MatMul": matmul, "Reshape": reshape, "Softmax": softmax}
READ_TOKENS = (
    *TOKENS,
    "Add",
    "Mul",
    "Div",
    "Gelu",
    "com.microsoft.Gelu",
    "Relu",
    "Transpose",
    "Identity",
    "Dropout",
)
