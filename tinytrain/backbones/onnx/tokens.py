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
SEVERAL = "nptkd"  # t results side by side, such as queries, keys and values
# What a Reshape makes of axes; m are all heads of all images.
AFTER = {"nchw": "ncp", "npc": "npkd", "npkd": "npc", "nkpd": "mpd", "mpd": "nkpd", "mdp": "nkdp"}


def tokens_of(walk: Walk, node: Node) -> list[Value]:
    """Inputs of `node` that are tokens."""
    found = (walk.values.get(name) for name in node.inputs)
    return [value for value in found if value is not None and "p" in value.axes]


def sizes_of(value: Value) -> dict[str, int]:
    """The size of each axis that `value` may have."""
    (high, broad), heads = value.hw, value.heads
    sizes = {"n": 1, "c": value.channels, "h": high, "w": broad, "p": high * broad, "t": len(value.pair)}
    return sizes | {"k": heads, "m": heads, "d": value.channels // heads, "q": high * broad}


def reshape(walk: Walk, node: Node) -> Value:
    """A feature map becomes tokens; channels are divided between heads, and put together again."""
    value, target = walk.values.get(node.inputs[0]), walk.constants.get(node.inputs[-1])
    if value is None or target is None or value.stage not in READ[1:]:
        return tail(walk, node)
    sizes, wanted = sizes_of(value), target.ravel().tolist()
    several = value.axes == "npc" and len(wanted) == 5
    after = SEVERAL if several else AFTER.get(value.axes)
    if after is None:
        return tail(walk, node)
    before = [sizes[axis] for axis in value.axes]
    sides = [before[k] if side == 0 and k < len(before) else side for k, side in enumerate(wanted)]
    sides[:1] = [sizes[after[0]]]
    known = math.prod(side for side in sides if side > 0)
    sides = [math.prod(before) // known if side == -1 else side for side in sides]
    if len(sides) != len(after) or min(sides) < 1:
        return tail(walk, node)
    heads = dict(zip(after, sides, strict=True)).get("k", value.heads if "m" in after else 1)
    count = sides[2] if several else 1
    if value.channels % (heads * count):
        return tail(walk, node)
    sizes |= {"t": count, "k": heads, "m": heads, "d": value.channels // count // heads}
    if sides != [sizes[axis] for axis in after]:
        return tail(walk, node)
    if several:
        return _divided(walk, node, count, heads)
    return walk.shared(node, replace(value, axes=after, heads=heads))


def _divided(walk: Walk, node: Node, count: int, heads: int) -> Value:
    """The channels of one product in `count` parts, such as queries, keys and values: a product for each."""
    value = walk.changing(node)
    if value.part != len(walk.parts) - 1:
        raise UnsupportedError("it does not follow the product whose channels it divides")
    whole, made_by, width = walk.parts.pop(), walk.made_by.pop(), value.channels // count
    parts = []
    for rows in (slice(k * width, (k + 1) * width) for k in range(count)):
        part = replace(whole, weight=whole.weight[rows], bias=whole.bias[rows])
        parts.append(replace(walk.add(made_by, part, "joined"), axes="npkd", heads=heads))
    return replace(parts[-1], axes=SEVERAL, pair=tuple(parts))


def one_of(walk: Walk, node: Node) -> Value:
    """One of several results that a product was divided in: by Gather, or by Slice and Squeeze."""
    (value, *_), of_file = (
        tokens_of(walk, node) or (None,),
        [walk.constants.get(name) for name in node.inputs[1:]],
    )
    if value is None or "t" not in value.axes:
        return tail(walk, node)
    if any(array is None or array.size != 1 for array in of_file):
        raise UnsupportedError("it takes several of them, or which one is not a constant of the file")
    numbers, at = [int(array.item()) for array in of_file], value.axes.index("t")
    first, axis = (numbers[0], node.get("axis", 0)) if node.op == "Gather" else (0, numbers[-1])
    if node.op == "Slice" and len(numbers) == 3:
        first, last, axis = numbers
        if axis == at and last == first + 1 <= len(value.pair):
            return replace(value, pair=value.pair[first:last])
    elif axis == at and 0 <= first < len(value.pair) and (node.op == "Gather" or len(value.pair) == 1):
        return replace(value.pair[first], axes=value.axes.replace("t", ""))
    raise UnsupportedError("it does not take one of queries, keys and values")


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
    rank, axis = len(value.axes), node.get("axis", -1)
    over = value.axes[axis] if -rank <= axis < rank else ""
    if (over, value.axes) != ("q", SCORES) and (over, value.axes[:1], value.channels) != ("p", "n", 1):
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


TOKENS = {
    "LayerNormalization": layer_norm, "MatMul": matmul, "Reshape": reshape, "Softmax": softmax,
    **dict.fromkeys(("Gather", "Slice", "Squeeze"), one_of),
}  # fmt: skip
READ_TOKENS = (
    *TOKENS, "Shape", "Add", "Mul", "Div", "Gelu", "com.microsoft.Gelu", "Relu", "Transpose", "Identity",
    "Dropout",
)  # fmt: skip
