"""ONNX operations of quantised models, and the int8 network of a graph that has them.

`quantize` and `dequantize` have the form of the functions in `tinytrain.backbones.onnx.operators`. A pair of
them changes nothing that the walk sees, but it says which codes of 8 bits the values have. A tool that
quantises drops a ReLU or ReLU6 behind which it puts a pair: the lowest code is 0 then, and clamping to the
codes is the activation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.backbones.onnx.activations import activated
from tinytrain.backbones.onnx.graph import Value, Walk
from tinytrain.backbones.onnx.reading import Node, UnsupportedError
from tinytrain.network.network import Network
from tinytrain.network.quantisation import RELU6_TOP, Codes, Quantisation, obstacles_of

LOWEST = -128
TYPES = {2: np.uint8, 3: np.int8}  # by their number in ONNX
BEFORE = "import the model that was quantised, then use: tinytrain calibrate"


@dataclass(frozen=True, eq=False)
class Stored:
    """A constant `codes` of 8 bits that stands for ``scale * (codes - zero)``; both lie along `axis`."""

    codes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    axis: int

    def int8(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Codes from -127 to 127 and scales (count,) float32 of a weight (count, ...).

        Raises UnsupportedError for what is not symmetric, or has no scale for each output channel.
        """
        middle = 128 if self.codes.dtype == np.uint8 else 0
        if (self.zero != middle).any():
            raise UnsupportedError(f"its weight is asymmetrical: its zero is not {middle}")
        if self.scale.size != 1 and (self.axis != 0 or self.scale.shape != (count,)):
            raise UnsupportedError("its weight has scales, but not one for each output channel")
        codes = self.codes.astype(np.int16) - middle
        if codes.min() == LOWEST:
            raise UnsupportedError("its weight has the code -128; quantise it as int8 from -127 to 127")
        return codes.astype(np.int8), np.broadcast_to(self.scale.reshape(-1), (count,)).copy()


def quantize(walk: Walk, node: Node) -> Value | None:
    """Values become codes; those of a constant are computed."""
    scale, zero = _scale_and_zero(walk, node)
    source = node.inputs[0]
    if source in walk.constants:
        values, (scale, zero) = walk.constant(node, 0, None, "input"), _along(walk, node, scale, zero)
        values /= scale
        np.rint(values, out=values)
        values += zero
        ends = np.iinfo(zero.dtype)
        np.clip(values, ends.min, ends.max, out=values)
        walk.constants[node.outputs[0]] = values.astype(zero.dtype)
        return None
    codes = _codes(scale, zero)
    value = _noted(walk, node, codes)
    walk.codes_of[node.outputs[0]] = codes
    return walk.shared(node, value)


def dequantize(walk: Walk, node: Node) -> Value | None:
    """Codes become values again; constants of 8 bits are remembered as they are stored."""
    source = node.inputs[0] if node.inputs else ""
    if source not in walk.constants:
        value = walk.value(node)
        if walk.codes_of.get(source) != _codes(*_scale_and_zero(walk, node)):
            raise UnsupportedError("it does not undo the QuantizeLinear before it")
        return walk.shared(node, value)
    array = walk.constants[source]
    scale, zero = _scale_and_zero(walk, node, array.dtype)
    walk.scaled += array.size
    walk.refuse_large()
    factor, offset = _along(walk, node, scale, zero)
    values = array.astype(np.float32)
    values -= offset
    with np.errstate(over="ignore"):  # what is too large is found, and named, where it is used
        values *= factor
    walk.constants[node.outputs[0]] = values
    if array.dtype.itemsize == 1:
        walk.stored[node.outputs[0]] = Stored(array, scale, zero, node.get("axis", 1))
    return None


def _scale_and_zero(walk: Walk, node: Node, kind=None) -> tuple[np.ndarray, np.ndarray]:
    """Scales (n,) float32 and zeros (n,); `kind` is the type of the codes if that is known."""
    scale = walk.constant(node, 1, None, "scale").astype(np.float32).reshape(-1)
    if not scale.size or scale.min() <= 0:
        raise UnsupportedError("a scale is not above 0")
    if node.get("block_size", 0):
        raise UnsupportedError("it is quantised in blocks")
    if len(node.inputs) > 2 and node.inputs[2]:
        zero = walk.constants.get(node.inputs[2])
        if zero is None:
            raise UnsupportedError("its zero point is not a constant of the file")
    else:
        zero = np.zeros(scale.shape, kind or TYPES.get(node.get("output_dtype", 2), np.int16))
    if zero.dtype not in (np.int8, np.uint8) and not (kind == zero.dtype == np.int32):
        raise UnsupportedError(f"its codes are {zero.dtype}, not of 8 bits")
    if zero.size != scale.size or (kind is not None and kind != zero.dtype):
        raise UnsupportedError("its zero points do not fit its scales or its codes")
    return scale, zero.reshape(-1)


def _along(walk: Walk, node: Node, *arrays: np.ndarray) -> list[np.ndarray]:
    """`arrays` (n,) in a shape that lies along the axis of the node's input, a constant."""
    shape, axis = walk.constants[node.inputs[0]].shape, node.get("axis", 1)
    if arrays[0].size == 1:
        return [array.reshape(()) for array in arrays]
    if not -len(shape) <= axis < len(shape) or shape[axis] != arrays[0].size:
        raise UnsupportedError(f"{arrays[0].size} scales along axis {axis} of {shape}")
    ones = [1] * len(shape)
    ones[axis] = arrays[0].size
    return [array.reshape(ones) for array in arrays]


def _codes(scale: np.ndarray, zero: np.ndarray) -> Codes:
    """As int8: codes from 0 to 255 are moved by 128."""
    if scale.size != 1:
        raise UnsupportedError("values that are computed have one scale, not one for each channel")
    if zero.dtype == np.int32:
        raise UnsupportedError("its codes are int32, not of 8 bits")
    return Codes(float(scale[0]), int(zero[0]) - 128 * (zero.dtype == np.uint8))


def _noted(walk: Walk, node: Node, codes: Codes) -> Value:
    """The input of `node`, whose `codes` are noted, with the activation that they are."""
    value = walk.value(node)
    if value.stage not in ("linear", "active", "sum"):
        return value
    if value.stage != "active" and codes.zero == LOWEST:
        six = value.stage == "linear" and 255 * codes.scale <= RELU6_TOP
        value = activated(walk, node, "relu6" if six else "relu")
    if walk.noted.setdefault((value.part, value.stage), codes) != codes:
        raise UnsupportedError("it gives other codes than an earlier one of the same values")
    return value


# ---- the network ------------------------------------------------------------------------------------


def int8_problems(walk: Walk, network: Network) -> Iterator[tuple[Node, str]]:
    """Why the convolutions of a quantised graph are no int8 `network`: node and reason."""
    for k, obstacle in enumerate(obstacles_of(network.nodes)):
        part, node = walk.parts[k], walk.made_by[k]
        if obstacle:
            yield node, f"it {obstacle}, which does not run in int8"
        elif node.inputs[1] not in walk.stored:
            yield node, "its weight is not quantised"
        elif not np.array_equal(part.weight, walk.constants[node.inputs[1]]):
            yield node, "a BatchNormalization follows its quantised weight; fold it before quantising"
        elif _output(walk, k) is None or (part.added is not None and _sum(walk, k) is None):
            yield node, "its output, or the sum behind it, is not quantised"
        elif part.activation and _output(walk, k).zero != LOWEST:
            yield node, "what an activation gives has codes for numbers below 0; quantise it asymmetrically"
        elif part.activation == "relu6" and 255 * _output(walk, k).scale > RELU6_TOP:
            yield node, "what ReLU6 gives has codes for numbers above 6"
        else:
            try:
                walk.stored[node.inputs[1]].int8(len(part.weight))
            except UnsupportedError as error:
                yield node, str(error)


def as_int8(walk: Walk, network: Network, matrix) -> Network:
    """`network` with the weights and codes of its graph, in which `int8_problems` found nothing.

    ``matrix(weight, layer)`` is the weight (out, in / groups, k, k) as a `Network` has it.
    """
    weights, scales, outputs, sums = [], [], [], []
    for k, (layer, node) in enumerate(zip(network.layers, walk.made_by, strict=True)):
        codes, scale = walk.stored[node.inputs[1]].int8(layer.cout)
        weights.append(matrix(codes, layer))
        scales.append(scale)
        outputs.append(_output(walk, k))
        sums.append(_sum(walk, k))
    quantisation = Quantisation(tuple(outputs), tuple(sums))
    return replace(network, weights=tuple(weights), scales=tuple(scales), quantisation=quantisation)


def _output(walk: Walk, k: int) -> Codes | None:
    adds = walk.parts[k].added is not None
    return (None if adds else walk.noted.get((k, "active"))) or walk.noted.get((k, "linear"))


def _sum(walk: Walk, k: int) -> Codes | None:
    return walk.noted.get((k, "sum"))


OPERATIONS = {"QuantizeLinear": quantize, "DequantizeLinear": dequantize}
