"""ONNX operations of transformers: on tokens, which are the positions of a feature map one after another.

The axes of a `Value` of tokens are letters: n images, p positions, c channels; if these are divided between
heads, k heads of d channels, and what queries p give with keys q. The functions have the form of those in
`tinytrain.backbones.onnx.operators`.
"""

import math
from dataclasses import replace

import numpy as np

from tinytrain.backbones.onnx.graph import READ, Part, Value, Walk
from tinytrain.backbones.onnx.reading import Node, UnsupportedError
from tinytrain.backbones.onnx.tail import tail

SPLIT, SCORES = "nkpd", "nkpq"  # queries and values where they are multiplied, and what comes out
AFTER = {"nchw": "ncp", "npc": "npkd", "npkd": "npc"}  # a Reshape


def tokens_of(walk: Walk, node: Node) -> list[Value]:
    """Inputs of `node` that are tokens."""
    found = (walk.values.get(name) for name in node.inputs)
    return [value for value in found if value is not None and "p" in value.axes]


def reshape(walk: Walk, node: Node) -> Value:
    """A feature map becomes tokens; channels are divided between heads, and put together again."""
    value, target = walk.values.get(node.inputs[0]), walk.constants.get(node.inputs[-1])
    after = AFTER.get(value.axes) if value and value.stage in READ[1:] else None
    if after is None or target is None:
        return tail(walk, node)
    (high, broad), channels = value.hw, value.channels
    sizes = {"n": 1, "c": channels, "h": high, "w": broad, "p": high * broad}
    sizes |= {"k": value.heads, "d": channels // value.heads}
    before = [sizes[axis] for axis in value.axes]
    sides = [1, *target.ravel().tolist()[1:]]
    sides = [before[k] if side == 0 and k < len(before) else side for k, side in enumerate(sides)]
    known = math.prod(side for side in sides if side > 0)
    sides = [math.prod(before) // known if side == -1 else side for side in sides]
    heads = sides[2] if after == "npkd" and len(sides) == 4 else 1
    if heads < 1 or channels % heads:
        return tail(walk, node)
    sizes |= {"k": heads, "d": channels // heads}
    if sides != [sizes[axis] for axis in after]:
        return tail(walk, node)
    return walk.shared(node, replace(value, axes=after, heads=heads))


def matmul(walk: Walk, node: Node) -> Value:
    if len(node.inputs) == 2 and node.inputs[1] in walk.constants and tokens_of(walk, node):
        return _dense(walk, node)
    if len(tokens_of(walk, node)) != 2:
        return tail(walk, node)
    x, y = (walk.value(node, k) for k in range(2))
    if (x.axes, y.axes) == (SPLIT, "nkdp") and (x.heads, x.hw, x.channels) == (y.heads, y.hw, y.channels):
        return replace(x, stage="scores", pair=(x, y), factor=x.factor * y.factor, axes=SCORES)
    if x.stage == "shares" and (x.axes, y.axes) == (SCORES, SPLIT):
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
    fits = weight.ndim == 2 and len(weight) == value.channels
    if value.axes != "npc" or value.stage not in READ[1:] or not fits:
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


def scaled(walk: Walk, node: Node, position: int) -> Value:
    """Queries, keys or their products, the input at `position`, times a number: how steep attention is."""
    value = walk.changing(node, position, (*READ[1:], "scores"))
    number = walk.constant(node, 1 - position, None, "factor")
    if number.size != 1 or not number.all() or "k" not in value.axes:
        raise UnsupportedError("only what attention compares can be multiplied, by one number that is not 0")
    factor = number.item() if node.op == "Mul" else 1 / number.item()
    return replace(value, factor=value.factor * factor)


def softmax(walk: Walk, node: Node) -> Value:
    if not tokens_of(walk, node):
        return tail(walk, node)
    value = walk.value(node)
    last = node.get("axis", -1) in (-1, len(value.axes) - 1)
    if not last or not (value.axes == SCORES or (value.axes == "ncp" and value.channels == 1)):
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
    *TOKENS, "Add", "Mul", "Div", "Gelu", "com.microsoft.Gelu", "Relu", "Transpose", "Identity", "Dropout",
)  # fmt: skip
