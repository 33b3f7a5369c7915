"""ONNX operations on feature maps: convolution, batch normalisation, ReLU6 and residual addition.

Each function takes (walk, node), changes the convolutions of the walk and returns the output `Value`. It
raises UnsupportedError with the reason, or UnknownError (see `tinytrain.backbones.onnx.graph`).
"""

import numpy as np

from tinytrain.backbones.onnx.graph import DESCRIBED, IMAGE, Part, Value, Walk
from tinytrain.backbones.onnx.reading import Node, UnsupportedError
from tinytrain.backbones.onnx.tail import TAIL, tail

DEPTHWISE_KERNELS = (3, 5, 7)
STEM_KERNELS = (1, 3, 5, 7)
BRANCH = "the graph branches here; supported is one chain with residual additions"


def convolution(walk: Walk, node: Node) -> Value:
    weight, bias, stride, groups = _filters(walk, node)
    value = walk.value(node)
    if value.stage not in ("picture", "linear", "relu6", "sum"):
        raise UnsupportedError(f"it follows {DESCRIBED[value.stage]}")
    if value.part != len(walk.parts) - 1 or walk.pooled is not None:
        raise UnsupportedError(BRANCH)
    if value.channels != weight.shape[1] * groups:
        raise UnsupportedError(
            f"it takes {weight.shape[1] * groups} channels, but its input has {value.channels}"
        )
    kind = _kind(value, weight.shape[2], stride, groups)
    _check_padding(node, weight.shape[2], stride, value.hw)
    out_hw = tuple((side - 1) // stride + 1 for side in value.hw)
    walk.parts.append(Part(kind, weight, bias, stride, value, out_hw))
    walk.refuse_large()
    return Value(len(walk.parts) - 1, "linear", len(weight), out_hw)


def _filters(walk: Walk, node: Node) -> tuple[np.ndarray, np.ndarray, int, int]:
    """(weight, bias, stride, groups), which do not depend on the input."""
    weight = walk.constant(node, 1, None, "weight")
    if weight.ndim != 4 or 0 in weight.shape or weight.shape[2] != weight.shape[3]:
        raise UnsupportedError(f"its weight has shape {weight.shape}, not (out, in, k, k)")
    square, groups = [weight.shape[2]] * 2, node.get("group", 1)
    if node.get("kernel_shape", square, 2) != square:
        raise UnsupportedError("its kernel_shape is not the shape of its weight")
    strides = node.get("strides", [1, 1], 2)
    if strides not in ([1, 1], [2, 2]):
        raise UnsupportedError(f"strides {strides}, not 1 or 2 in both directions")
    if node.get("dilations", [1, 1], 2) != [1, 1]:
        raise UnsupportedError("it is dilated")
    if groups != 1 and (weight.shape[1] != 1 or groups != len(weight)):
        raise UnsupportedError(f"{groups} groups, not 1 or one per channel")
    bias = np.zeros(len(weight))
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = walk.constant(node, 2, (len(weight),), "bias")
    return weight, bias, strides[0], groups


def _kind(value: Value, kernel: int, stride: int, groups: int) -> str:
    """The kind of layer for a convolution of `value`."""
    if value.part == IMAGE:
        if groups != 1 or kernel not in STEM_KERNELS:
            raise UnsupportedError(f"the first one must be dense with a kernel of {STEM_KERNELS}")
        return "conv"
    if groups > 1:
        if kernel not in DEPTHWISE_KERNELS:
            raise UnsupportedError(f"depthwise with kernel {kernel}, not one of {DEPTHWISE_KERNELS}")
        return "depthwise"
    if (kernel, stride) != (1, 1):
        raise UnsupportedError(f"dense with kernel {kernel}, stride {stride}; only the first one may be")
    return "pointwise"


def _check_padding(node: Node, kernel: int, stride: int, hw: tuple[int, int]) -> None:
    """Raise UnsupportedError unless every side is padded by (kernel - 1) // 2, as in our layers."""
    wanted, rule = (kernel - 1) // 2, node.get("auto_pad", "NOTSET")
    if rule not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise UnsupportedError(f"auto_pad {rule[:20]}")
    pads = node.get("pads", [0] * 4, 4) if rule == "NOTSET" else [0] * 4
    if rule.startswith("SAME"):
        totals = [max(0, (side - 1) // stride * stride + kernel - side) for side in hw]
        short, long = [total // 2 for total in totals], [total - total // 2 for total in totals]
        pads = short + long if rule == "SAME_UPPER" else long + short
    if pads != [wanted] * 4:
        raise UnsupportedError(f"padding {pads}, not {wanted} on every side")


def batch_norm(walk: Walk, node: Node) -> Value:
    if node.get("training_mode", 0) or any(node.outputs[1:]):
        raise UnsupportedError("it is in training mode")
    value, epsilon = walk.newest(node), node.get("epsilon", 1e-5)
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


def clip(walk: Walk, node: Node) -> Value:
    bounds = _bound(walk, node, 1, "min"), _bound(walk, node, 2, "max")
    if bounds != (0, 6):
        raise UnsupportedError(f"bounds {bounds[0]:g} and {bounds[1]:g}; the only activation is Clip(0, 6)")
    value = walk.newest(node)
    walk.parts[value.part].relu6 = True
    return Value(value.part, "relu6", value.channels, value.hw)


def _bound(walk: Walk, node: Node, position: int, key: str) -> float:
    """A bound of Clip: an input since opset 11, an attribute before."""
    if position < len(node.inputs) and node.inputs[position]:
        return float(walk.constant(node, position, (), key))
    return node.get(key, -np.inf if key == "min" else np.inf)


def relu(walk: Walk, node: Node) -> Value:
    raise UnsupportedError("not exact here: the only activation is ReLU6, Clip(0, 6)")


def add(walk: Walk, node: Node) -> Value:
    """The residual addition of a block, or the bias of a classifier."""
    values = [None if name in walk.constants else walk.value(node, k) for k, name in enumerate(node.inputs)]
    if any(value is not None and value.stage in ("pooled", "tail") for value in values):
        return tail(walk, node)
    if None in values and any(value is not None and value.stage == "picture" for value in values):
        return normalisation(walk, node)
    if len(values) != 2 or None in values:
        raise UnsupportedError("it adds a constant")
    position = int(values[1].part > values[0].part)
    newer, older = walk.newest(node, position), values[1 - position]
    part = walk.parts[newer.part]
    if newer.part == older.part or older.part == IMAGE or part.kind != "pointwise":
        raise UnsupportedError(
            "it does not add the input of a block to the block's last pointwise convolution"
        )
    last_sum = max((k for k, p in enumerate(walk.parts) if p.adds is not None), default=0)
    if older.part < last_sum or walk.parts[older.part + 1].reads != older:
        raise UnsupportedError("it spans another addition, or starts inside a block")
    if (older.channels, older.hw) != (newer.channels, newer.hw):
        raise UnsupportedError(f"{older.channels} x {older.hw} added to {newer.channels} x {newer.hw}")
    part.adds = older.part
    return Value(newer.part, "sum", newer.channels, newer.hw)


def normalisation(walk: Walk, node: Node) -> Value:
    """The values of the image plus, minus, times or by a constant: one number, or one for each channel."""
    if len(node.inputs) != 2:
        raise UnsupportedError(f"it has {len(node.inputs)} inputs, not 2")
    position = int(node.op in ("Add", "Mul") and node.inputs[0] in walk.constants)
    value = walk.newest(node, position, ("picture",))
    array = walk.constant(node, 1 - position, None, "constant")
    each = array.shape[-3:] == (value.channels, 1, 1)
    if array.ndim > 4 or array.size != (value.channels if each else 1):
        raise UnsupportedError(
            f"its constant has shape {array.shape}, not a number or ({value.channels}, 1, 1)"
        )
    numbers = array.reshape(-1)
    if node.op in ("Mul", "Div"):
        if (numbers <= 0).any():
            raise UnsupportedError("its constant is not above 0")
        factor = numbers if node.op == "Mul" else 1 / numbers
        with np.errstate(
            all="ignore"
        ):  # what is too large or too small is found, and named, by check_network
            walk.gain, walk.offset = walk.gain * factor, walk.offset * factor
    else:
        walk.offset = walk.offset + (numbers if node.op == "Add" else -numbers)
    return value


def alias(walk: Walk, node: Node) -> Value | None:
    """Identity, and Dropout, which has no effect outside training."""
    source = node.inputs[0] if node.inputs else ""
    if node.op == "Identity" and source in walk.constants:
        walk.constants[node.outputs[0]] = walk.constants[source]
        return None
    if node.op == "Dropout" and any(node.inputs[2:]):
        flag = walk.constants.get(node.inputs[2])
        if flag is None or flag.size != 1 or bool(flag.reshape(())):
            raise UnsupportedError("it is in training mode")
    value, copy = walk.value(node), node.outputs[0]
    # Original and copy share their readers.
    walk.readers[copy] = walk.readers.get(copy, 0) + walk.readers[source] - 1
    return value


OPERATIONS = {
    "Conv": convolution,
    "BatchNormalization": batch_norm,
    "Clip": clip,
    "Relu": relu,
    "Add": add,
    **dict.fromkeys(("Sub", "Mul", "Div"), normalisation),
    "Identity": alias,
    "Dropout": alias,
    **TAIL,
}
SUPPORTED = (
    f"Conv (the first dense with kernel {STEM_KERNELS}, then pointwise or depthwise {DEPTHWISE_KERNELS};"
    " stride 1 or 2; padding (k-1)//2), BatchNormalization after Conv, Clip(0, 6), Add of a block's input,"
    " GlobalAveragePool or ReduceMean at the end, then Flatten, Reshape, Squeeze, one Gemm or MatMul,"
    " Softmax; Identity and Dropout anywhere; Add, Sub, Mul and Div of a constant right behind the image, a"
    " number or one for each channel"
)
