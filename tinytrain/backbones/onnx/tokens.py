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
from tinytrain.backbones.onnx.tail import axes_of, tail
from tinytrain.backbones.onnx.tail import reduce_mean as averaged

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
    if value is None or value.stage not in READ[1:] or target is None or target.dtype.kind != "i":
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
    noted = any(part == value.part for part, _ in walk.noted)
    if value.part != len(walk.parts) - 1 or noted:
        raise UnsupportedError("it does not follow the product whose channels it divides")
    whole, made_by, width = walk.parts.pop(), walk.made_by.pop(), value.channels // count
    parts = []
    for rows in (slice(k * width, (k + 1) * width) for k in range(count)):
        part = replace(whole, weight=whole.weight[rows], bias=whole.bias[rows])
        parts.append(replace(walk.add(made_by, part, "joined"), axes="npkd", heads=heads))
    return replace(parts[-1], axes=SEVERAL, pair=tuple(parts))


def one_of(walk: Walk, node: Node) -> Value:
    """One of the results that a product was divided in, or the first token."""
    tokens, of_file = tokens_of(walk, node), [walk.constants.get(name) for name in node.inputs[1:]]
    if not tokens:
        return tail(walk, node)
    value, several = tokens[0], tokens[0].axes.find("t")
    whole = (array for array in of_file if array is not None and array.size == 1 and array.dtype.kind == "i")
    known = [array.item() for array in whole]
    if not known or len(known) < len(of_file) or (node.op == "Gather" and of_file[0].ndim):
        raise UnsupportedError("which of them it takes is not one constant of the file")
    axis, alone = node.get("axis", 0) if node.op == "Gather" else known[-1], len(value.pair) == 1
    if node.op == "Gather" and (value.axes, value.hw[1], axis, known) == ("npc", 1, 1, [0]):
        return _first_token(walk, value, node)
    if several == axis and node.op == "Slice" and len(known) == 3 and known[1] == known[0] + 1:
        return replace(value, pair=value.pair[known[0] : known[1]])
    first = known[0] if node.op == "Gather" else 0 if node.op == "Squeeze" and alone else -1
    if several == axis and 0 <= first < len(value.pair):
        return replace(value.pair[first], axes=value.axes.replace("t", ""))
    raise UnsupportedError("it takes neither the first token nor one of queries, keys and values")


def _first_token(walk: Walk, value: Value, node: Node) -> Value:
    """The first token is the embedding: a pooling whose only window is that."""
    walk.pooled = node.outputs[0]
    part = Part("max-pool", (value,), (1, 1), stride=value.hw, pad=(0, 0))
    return replace(walk.add(node, part, "pooled"), axes="nc")


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
    before = walk.parts[value.part]
    if before.kind == "position" and walk.readers[node.inputs[position]] == 1:
        before.weight = before.weight + weight
        return value
    part = Part("position", (value,), value.hw, weight, np.zeros(value.channels))
    return replace(walk.add(node, part, "joined"), axes="npc")


def class_token(walk: Walk, node: Node) -> Value:
    """A constant token, which all images share, before those of an image: it has a place of its own."""
    value = walk.value(node, len(node.inputs) - 1)
    if (
        len(node.inputs) != 2
        or (value.axes, node.get("axis", 0)) != ("npc", 1)
        or value.stage not in READ[1:]
    ):
        raise UnsupportedError("only one constant token can be joined to those of an image, before them")
    token = walk.constant(node, 0, (1, 1, value.channels), "token")
    weight = np.zeros((value.channels, value.hw[0] * value.hw[1] + 1, 1, 1))
    weight[:, 0] = token.reshape(-1, 1, 1)
    part = Part("position", (value,), weight.shape[1:3], weight, np.zeros(value.channels))
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


def reduce_mean(walk: Walk, node: Node) -> Value:
    """The mean over all tokens, or a pooling of a feature map."""
    if not tokens_of(walk, node):
        return averaged(walk, node)
    value = walk.changing(node, 0, READ[1:])
    if value.axes != "npc" or axes_of(walk, node) not in ([1], [-2]):
        raise UnsupportedError("of tokens only the mean over all of them is supported")
    walk.pooled = node.outputs[0]
    return walk.add(node, Part("sequence-pool", (value,), (1, 1)), "pooled")


def layer_norm(walk: Walk, node: Node) -> Value:
    if walk.in_tail(node):
        return tail(walk, node)
    value = walk.value(node)
    if value.axes != "npc" or value.stage not in READ[1:] or node.get("axis", -1) not in (-1, 2):
        raise UnsupportedError("only tokens are normalised over their channels")
    scale, bias = (walk.constant(node, k, (value.channels,), what) for k, what in ((1, "scale"), (2, "bias")))
    numbers = (("epsilon", float(node.get("epsilon", 1e-5))),)
    part = Part("layer-norm", (value,), value.hw, scale[:, None, None, None], bias, attributes=numbers)
    return replace(walk.add(node, part, "joined"), axes="npc")


TOKENS = {
    "LayerNormalization": layer_norm, "MatMul": matmul, "Reshape": reshape, "Softmax": softmax,
    "ReduceMean": reduce_mean, **dict.fromkeys(("Gather", "Slice", "Squeeze"), one_of),
}  # fmt: skip
READ_TOKENS = (
    *TOKENS, "Concat", "Shape", "Add", "Mul", "Div", "Gelu", "com.microsoft.Gelu", "Relu", "Transpose",
    "Identity", "Dropout",
)  # fmt: skip
