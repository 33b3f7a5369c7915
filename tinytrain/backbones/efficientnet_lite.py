"""EfficientNet-Lite checkpoints as networks: batch normalisation folded into the convolutions.

They are TensorFlow's weights in PyTorch's form (names such as ``_blocks.3._bn1.running_mean``). TensorFlow
pads more at the end than at the start if the stride is 2. With the kernels and the images turned by 180
degrees that becomes the even padding of our layers. Images enter as (v - 127) / 128.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.network.network import InputSpec, Network, quantised
from tinytrain.network.node import Node
from tinytrain.network.validation import check_network

EPSILON = 1e-3  # of batch normalisation
STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage; a stage has its own output channels
PARTS = (  # of a block: name, convolution, batch normalisation
    ("expand", "_expand_conv", "_bn0"),
    ("depthwise", "_depthwise_conv", "_bn1"),
    ("project", "_project_conv", "_bn2"),
)
MAX_BLOCKS = 64


def convert(checkpoint, name: str, source: str, size: int = 128) -> Network:
    """Network of int8 weights for images of `size` x `size`: stem and blocks, without head and classifier.

    Raises InputError ``unsupported`` or a code of `check_network` if the content is no such network.
    """
    return quantised(convert_float(checkpoint, name, source, size))


def convert_float(checkpoint, name: str, source: str, size: int = 128, head: bool = False) -> Network:
    """The same with float32 weights, and with the `head` convolution if asked for."""
    if not isinstance(checkpoint, dict):
        raise _wrong(source, "it is no dictionary")
    with np.errstate(all="ignore"):  # numbers that are none are found, and named, by check_network
        network = _folded_network(_Reader(checkpoint, source, size), name, head)
    check_network(network)
    return network


def _folded_network(reader: "_Reader", name: str, head: bool) -> Network:
    reader.add("stem", "_conv_stem", "_bn0", block=0, stride=2)
    widths = reader.widths()
    stages = sorted({width: block for block, width in reversed(list(enumerate(widths)))}.values())
    if len(stages) != len(STRIDES):
        raise _wrong(reader.source, f"its blocks have {len(stages)} widths, not {len(STRIDES)}")
    for block in range(len(widths)):
        reader.add_block(block, STRIDES[stages.index(block)] if block in stages else 1)
    if head:
        reader.add("head", "_conv_head", "_bn1", block=len(widths) + 1)
    spec = InputSpec((reader.size, reader.size, 3), mean=127.0, scale=1 / 128, rotated=True)
    weights, biases = tuple(reader.weights), tuple(reader.biases)
    return Network(name, tuple(reader.layers), weights, (None,) * len(weights), biases, spec)


class _Reader:
    """Layers with their folded weights and biases, one after another."""

    def __init__(self, values: Mapping, source: str, size: int):
        self.values, self.source, self.size = values, source, size
        self.layers: list[Node] = []
        self.weights: list[np.ndarray] = []
        self.biases: list[np.ndarray] = []

    def widths(self) -> list[int]:
        """Output channels of every block."""
        found = []
        while (name := f"_blocks.{len(found)}._project_conv.weight") in self.values:
            found.append(len(self._array(name)))
        if not 1 <= len(found) <= MAX_BLOCKS:
            raise _wrong(self.source, f"it has {len(found)} blocks")
        return found

    def add_block(self, number: int, stride: int) -> None:
        read = self.layers[-1]
        for part, convolution, norm in PARTS:
            prefix = f"_blocks.{number}."
            if part == "expand" and f"{prefix}{convolution}.weight" not in self.values:
                continue
            name, own_stride = f"block{number}.{part}", stride if part == "depthwise" else 1
            self.add(name, prefix + convolution, prefix + norm, number + 1, own_stride, read)

    def add(
        self, name: str, convolution: str, norm: str, block: int, stride: int = 1, read: Node | None = None
    ) -> None:
        """A convolution with its batch normalisation; `read` is what its block takes."""
        weight = self._array(f"{convolution}.weight", axes=4)
        cout, each, kernel, _ = weight.shape
        last = self.layers[-1] if self.layers else None
        cin, in_hw = (last.cout, last.out_hw) if last else (3, (self.size, self.size))
        kind = "depthwise" if name.endswith(".depthwise") else "pointwise" if last else "conv"
        if each != (1 if kind == "depthwise" else cin) or (kind == "pointwise" and kernel != 1):
            raise _wrong(self.source, f"{convolution} is {weight.shape}, which does not fit {cin} channels")
        project = name.endswith(".project")
        stays = project and read is not None and read.cout == cout and last.stride == (1, 1)
        inputs = (last.name, read.name) if stays else ()
        out_hw = tuple((side - 1) // stride + 1 for side in in_hw)
        activation = None if project else "relu6"
        self.layers.append(
            Node(name, kind, cin, cout, kernel, stride, in_hw, out_hw, activation, block, inputs)
        )
        gain, bias = self._folded(norm, cout)
        turned = (weight * gain[:, None, None, None])[:, :, ::-1, ::-1].transpose(2, 3, 1, 0)
        self.weights.append(turned.reshape(-1, cout).astype(np.float32))
        self.biases.append(bias.astype(np.float32))

    def _folded(self, norm: str, cout: int) -> tuple[np.ndarray, np.ndarray]:
        """Factor and bias (cout,), float64, that do what batch normalisation does."""
        parts = ("weight", "bias", "running_mean", "running_var")
        gain, bias, mean, variance = (self._array(f"{norm}.{part}", (cout,)) for part in parts)
        if variance.min() < 0:
            raise _wrong(self.source, f"{norm} has a variance below 0")
        factor = gain / np.sqrt(variance + EPSILON)
        return factor, bias - mean * factor

    def _array(self, name: str, shape: Sequence[int] | None = None, axes: int = 1) -> np.ndarray:
        """Float64 copy of the array `name`, with exactly this `shape` or this number of axes."""
        array = self.values.get(name)
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            raise _wrong(self.source, f"{name} must be an array of float32")
        if array.shape != shape if shape else array.ndim < axes:
            raise _wrong(self.source, f"{name} is {array.shape}")
        return array.astype(np.float64)


def _wrong(source: str, what: str) -> InputError:
    return InputError("unsupported", f"{source}: {what}; supported are EfficientNet-Lite checkpoints")
