"""ONNX operations on feature maps: convolution, batch normalisation, activations, sums and products.

Each function takes (walk, node), changes the convolutions of the walk and returns the output `Value`. It
raises UnsupportedError with the reason, or UnknownError (see `tinytrain.backbones.onnx.graph`).
"""

from dataclasses import replace

import numpy as np

from tinytrain.backbones.onnx.activations import ACTIVATIONS
from tinytrain.backbones.onnx.graph import BRANCH, DESCRIBED, IMAGE, NO_PADS, READ, SUMS, Part, Value, Walk
from tinytrain.backbones.onnx.pooling import fitted, max_pool
from tinytrain.backbones.onnx.quantised import OPERATIONS as QUANTISED
from tinytrain.backbones.onnx.reading import FLOAT, FLOAT16, Node, UnsupportedError
from tinytrain.backbones.onnx.tail import TAIL, tail
from tinytrain.backbones.onnx.tokens import TOKENS, add_constant, class_token, scaled, sizes_of, tokens_of
from tinytrain.network.validation import is_patches

DEPTHWISE_KERNELS = (3, 5, 7)
DENSE_KERNELS = (1, 3, 5, 7)


def convolution(walk: Walk, node: Node) -> Value:
    if walk.in_tail(node):
        return tail(walk, node)
    weight, bias, stride, groups = _filters(walk, node)
    value = walk.value(node)
    if value.stage not in READ:
        raise UnsupportedError(f"it follows {DESCRIBED[value.stage]}")
    if walk.pooled is not None or (value.part == IMAGE and walk.parts):
        raise UnsupportedError(BRANCH)
    if value.channels != weight.shape[1] * groups:
        raise UnsupportedError(
            f"it takes {weight.shape[1] * groups} channels, but its input has {value.channels}"
        )
    kind, kernel = _kind(walk, value, weight.shape, stride, groups), weight.shape[2:]
    part = Part(kind, (replace(value, pads=NO_PADS),), (1, 1), weight, bias, kernel, (stride, stride))
    if kind not in ("squeeze", "excite"):
        part.pad, part.out_hw = _padding(walk, node, part, value)
    return walk.add(node, part, "linear")


def _filters(walk: Walk, node: Node) -> tuple[np.ndarray, np.ndarray, int, int]:
    """(weight, bias, stride, groups), which do not depend on the input."""
    weight = walk.constant(node, 1, None, "weight")
    if weight.ndim != 4 or 0 in weight.shape:
        raise UnsupportedError(f"its weight has shape {weight.shape}, not (out, in, rows, columns)")
    sides, groups = list(weight.shape[2:]), node.get("group", 1)
    if node.get("kernel_shape", sides, 2) != sides:
        raise UnsupportedError("its kernel_shape is not the shape of its weight")
    strides = node.get("strides", [1, 1], 2)
    patches = groups == 1 and is_patches("conv", sides, strides, node.get("pads", [0] * 4, 4)[:2])
    if strides not in ([1, 1], [2, 2]) and not patches:
        raise UnsupportedError(f"strides {strides}, not 1 or 2 in both directions")
    if node.get("dilations", [1, 1], 2) != [1, 1]:
        raise UnsupportedError("it is dilated")
    if groups != 1 and (weight.shape[1] != 1 or groups != len(weight)):
        raise UnsupportedError(f"{groups} groups, not 1 or one per channel")
    bias = np.zeros(len(weight))
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = walk.constant(node, 2, (len(weight),), "bias")
    return weight, bias, strides[0], groups


def _kind(walk: Walk, value: Value, shape: tuple[int, ...], stride: int, groups: int) -> str:
    """The operation for a convolution of `value` by a weight of `shape`."""
    kernel = shape[2:]
    named = kernel[0] if kernel[0] == kernel[1] else f"{kernel[0]} x {kernel[1]}"
    if value.part == IMAGE:
        if groups != 1 or not (stride > 2 or set(kernel) <= set(DENSE_KERNELS)):
            raise UnsupportedError(f"the first one must be dense with a kernel of {DENSE_KERNELS}")
        return "conv"
    if value.stage == "squeezed" or walk.parts[value.part].kind == "squeeze":
        if (kernel, stride, groups) != ((1, 1), 1, 1):
            raise UnsupportedError("in a squeeze-and-excitation only dense kernels of 1 are supported")
        return "squeeze" if value.stage == "squeezed" else "excite"
    if groups > 1:
        if kernel[0] != kernel[1] or kernel[0] not in DEPTHWISE_KERNELS:
            raise UnsupportedError(f"depthwise with kernel {named}, not one of {DEPTHWISE_KERNELS}")
        return "depthwise"
    if not set(kernel) <= set(DENSE_KERNELS):
        raise UnsupportedError(f"dense with kernel {named}, not one of {DENSE_KERNELS}")
    return "pointwise" if (kernel, stride) == ((1, 1), 1) else "conv"


def _padding(walk: Walk, node: Node, part: Part, value: Value) -> tuple:
    """(padding, or None for the usual one, (kernel - 1) // 2; rows and columns of the result)."""
    kernel, stride = part.kernel, part.stride
    rule = node.get("auto_pad", "NOTSET")
    if rule not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise UnsupportedError(f"auto_pad {rule[:20]}")
    pads = node.get("pads", [0] * 4, 4) if rule == "NOTSET" else [0] * 4
    pads = [ours + theirs for ours, theirs in zip(value.pads, pads, strict=True)]
    if rule.startswith("SAME"):
        if any(value.pads):
            raise UnsupportedError("it pads, and follows a Pad")
        sides = zip(value.hw, kernel, stride, strict=True)
        totals = [max(0, (side - 1) // step * step + size - side) for side, size, step in sides]
        short, long = [total // 2 for total in totals], [total - total // 2 for total in totals]
        pads = short + long if rule == "SAME_UPPER" else long + short
    return fitted(walk, kernel, stride, pads, value.hw, lacks_end=False, other=part.kind == "conv")


def pad(walk: Walk, node: Node) -> Value:
    """Zeros around rows and columns."""
    value = walk.value(node)
    pads = (
        walk.constants.get(node.inputs[1]) if len(node.inputs) > 1 else np.array(node.attributes.get("pads"))
    )
    if (
        pads is None
        or pads.dtype != np.int64
        or pads.shape != (8,)
        or pads[[0, 1, 4, 5]].any()
        or pads.min() < 0
    ):
        raise UnsupportedError("it pads other axes than rows and columns, or by numbers outside of the file")
    if node.get("mode", "constant") != "constant" or any(node.inputs[3:]):
        raise UnsupportedError("only constant padding of rows and columns is supported")
    number = (
        walk.constant(node, 2, (), "value")
        if len(node.inputs) > 2 and node.inputs[2]
        else node.get("value", 0.0)
    )
    if number != 0 or value.stage not in READ:
        raise UnsupportedError("only zeros around what a Conv reads are supported")
    return replace(value, pads=tuple(pads[[2, 3, 6, 7]].tolist()))


def batch_norm(walk: Walk, node: Node) -> Value:
    if node.get("training_mode", 0) or any(node.outputs[1:]):
        raise UnsupportedError("it is in training mode")
    if walk.in_tail(node):
        return tail(walk, node)
    value, epsilon = walk.changing(node), node.get("epsilon", 1e-5)
    if (value.part, value.stage) in walk.noted:
        raise UnsupportedError("it follows quantised values; fold it into its Conv before quantising")
    what = ("scale", "bias", "mean", "variance")
    scale, bias, mean, variance = (
        walk.constant(node, k, (value.channels,), w) for k, w in enumerate(what, 1)
    )
    if (variance + epsilon <= 0).any():
        raise UnsupportedError("a variance is not above 0")
    gain, part = scale / np.sqrt(variance + epsilon), walk.parts[value.part]
    walk.scaled += part.weight.size
    walk.refuse_large()
    part.weight = part.weight * gain[:, None, None, None]
    part.bias = (part.bias - mean) * gain + bias
    return value


def multiply(walk: Walk, node: Node) -> Value:
    """Channels times the factors of a squeeze-and-excitation, or the image times a constant."""
    values = [None if name in walk.constants else walk.value(node, k) for k, name in enumerate(node.inputs)]
    if not any(value is not None and value.stage == "factors" for value in values):
        return normalisation(walk, node)
    position = int(values[1] is not None and values[1].stage == "factors")
    factors, squeezed = walk.changing(node, position, ("factors",)), values[1 - position]
    part = walk.parts[factors.part]
    (wanted,) = walk.parts[part.reads[0].part].reads
    if squeezed is None or replace(wanted, stage=squeezed.stage) != squeezed:
        raise UnsupportedError("it does not scale the channels whose means were taken")
    if factors.channels != squeezed.channels:
        raise UnsupportedError(f"{factors.channels} factors for {squeezed.channels} channels")
    part.reads, part.out_hw = (part.reads[0], squeezed), squeezed.hw
    return Value(factors.part, "scaled", squeezed.channels, squeezed.hw)


def add(walk: Walk, node: Node) -> Value:
    """Something added to the result of a convolution, or the bias of a classifier."""
    values = [None if name in walk.constants else walk.value(node, k) for k, name in enumerate(node.inputs)]
    if any(value is not None and value.stage in ("pooled", "tail") for value in values):
        return tail(walk, node)
    if None in values and any(value is not None and value.stage == "picture" for value in values):
        return normalisation(walk, node)
    if len(values) == 2 and None in values and tokens_of(walk, node):
        return add_constant(walk, node)
    if len(values) != 2 or None in values:
        raise UnsupportedError("it adds a constant")
    position = int(values[1].part > values[0].part)
    newer, older = walk.changing(node, position, ("linear", "sum")), values[1 - position]
    part = walk.parts[newer.part]
    if part.added is not None:
        part = _inner(walk, part, older)
    if newer.part == older.part or older.stage not in READ[1:] or part.kind not in SUMS:
        raise UnsupportedError("it does not add an earlier result to a dense or pointwise convolution")
    if (older.channels, older.hw, older.axes) != (newer.channels, newer.hw, newer.axes):
        raise UnsupportedError(f"{older.channels} x {older.hw} added to {newer.channels} x {newer.hw}")
    part.reads += (older,)
    return replace(newer, stage="sum")


def _inner(walk: Walk, part: Part, older: Value) -> Part:
    """The one that `part` adds, if something `older` can be added to that instead: sums have no order."""
    added = part.added
    inner = walk.parts[added.part]
    alone = [other for other in walk.parts if added.part in other.sources] == [part]
    if (
        added.stage != "linear"
        or inner.kind not in SUMS
        or inner.added
        or not alone
        or older.part >= added.part
    ):
        raise UnsupportedError("it follows a residual addition")
    return inner


def concat(walk: Walk, node: Node) -> Value:
    """Channels of several results, one after another."""
    if tokens_of(walk, node):
        return class_token(walk, node)
    values = [walk.value(node, k) for k in range(len(node.inputs))]
    if len(values) < 2 or any(value.stage not in READ[1:] for value in values):
        raise UnsupportedError("only results of convolutions, poolings and concatenations can be joined")
    if node.get("axis", 1) not in (1, -3) or len({value.hw for value in values}) > 1:
        raise UnsupportedError("only channels of feature maps of one size can be joined")
    return walk.add(node, Part("concat", tuple(values), values[0].hw), "joined")


def normalisation(walk: Walk, node: Node) -> Value:
    """The values of the image plus, minus, times or by a constant: one number, or one for each channel."""
    if len(node.inputs) != 2:
        raise UnsupportedError(f"it has {len(node.inputs)} inputs, not 2")
    position = int(node.op in ("Add", "Mul") and node.inputs[0] in walk.constants)
    if tokens_of(walk, node):
        return scaled(walk, node, position)
    value = walk.changing(node, position, ("picture",))
    array = walk.constant(node, 1 - position, None, "constant")
    wanted = (value.channels, 1, 1) if value.axes == "nchw" else (value.channels,)
    each = array.shape[-len(wanted) :] == wanted
    if array.ndim > 4 or array.size != (value.channels if each else 1):
        raise UnsupportedError(f"its constant has shape {array.shape}, not a number or {wanted}")
    numbers = array.reshape(-1)
    if node.op in ("Mul", "Div"):
        if (numbers <= 0).any():
            raise UnsupportedError("its constant is not above 0")
        factor = numbers if node.op == "Mul" else 1 / numbers
        with np.errstate(all="ignore"):  # check_network finds and names what is too large or too small
            walk.gain, walk.offset = walk.gain * factor, walk.offset * factor
    else:
        walk.offset = walk.offset + (numbers if node.op == "Add" else -numbers)
    return value


def shape(walk: Walk, node: Node) -> None:
    """The size of an image or a feature map, of which padding may be computed."""
    value = walk.value(node)
    if value.stage not in READ or node.get("start", 0) or "end" in node.attributes:
        raise UnsupportedError("only the whole size of an image or a feature map is supported")
    sizes = sizes_of(value)
    walk.constants[node.outputs[0]] = np.array([sizes[axis] for axis in value.axes])


def transpose(walk: Walk, node: Node) -> Value:
    """The same numbers with their axes in another order."""
    if walk.in_tail(node):
        return tail(walk, node)
    value = walk.value(node)
    order = node.get("perm", [3, 2, 1, 0], len(value.axes))
    if sorted(order) != list(range(len(value.axes))):
        raise UnsupportedError(f"perm is {order}")
    return walk.shared(node, replace(value, axes="".join(value.axes[k] for k in order)))


def alias(walk: Walk, node: Node) -> Value | None:
    """Identity, Dropout, which has no effect outside training, and Cast between float32 and float16."""
    source = node.inputs[0] if node.inputs else ""
    if node.op == "Cast" and node.get("to", 0) not in (FLOAT, FLOAT16):
        raise UnsupportedError(f"to is {node.get('to', 0)}, neither float32 nor float16")
    if node.op != "Dropout" and source in walk.constants:
        walk.constants[node.outputs[0]] = walk.constants[source]
        return None
    if node.op == "Dropout" and any(node.inputs[2:]):
        flag = walk.constants.get(node.inputs[2])
        if flag is None or flag.size != 1 or bool(flag.reshape(())):
            raise UnsupportedError("it is in training mode")
    return walk.shared(node, walk.value(node))


OPERATIONS = {
    "Conv": convolution,
    "BatchNormalization": batch_norm,
    **ACTIVATIONS,
    "MaxPool": max_pool,
    "Pad": pad,
    "Add": add,
    "Concat": concat,
    "Mul": multiply,
    **dict.fromkeys(("Sub", "Div"), normalisation),
    "Shape": shape,
    "Transpose": transpose,
    **dict.fromkeys(("Identity", "Dropout", "Cast"), alias),
    **QUANTISED,
    **TAIL,
    **TOKENS,
}
