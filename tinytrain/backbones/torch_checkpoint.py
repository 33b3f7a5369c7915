"""Published int8 checkpoints (PyTorch zip files of the tiny-training model zoo) as networks, without torch.

Their float meaning: w = weight * w_scale, b = bias * w_scale * x_scale, input (uint8 - 127.5) / 127.5;
every convolution but a block's last ends in ReLU6. The classifier is dropped. The scales and zero points of
activations become the codes of the network, if the file has all of them.
"""

import math
import os
from pathlib import Path

import numpy as np

from tinytrain.backbones.pickled import read_checkpoint
from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node
from tinytrain.network.quantisation import Codes, Quantisation
from tinytrain.network.validation import check_network

MAX_FILE = 16 * 2**20
MAX_BLOCKS = 256
CONVOLUTIONS = {"pointwise1": "expand", "depthwise": "depthwise", "pointwise2": "project"}


def import_checkpoint(path: str | os.PathLike) -> Network:
    """Network of the published checkpoint `path`, named after the file.

    Raises InputError: a code of `read_bytes`, `read_checkpoint` or `check_network`, or
    ``unsupported`` when the content is no such network.
    """
    checkpoint = read_checkpoint(read_bytes(path, MAX_FILE), str(path))
    return convert(checkpoint, Path(path).stem, str(path))


def convert(checkpoint, name: str, source: str) -> Network:
    """Network of the loaded `checkpoint`: stem, then the convolutions of each block in order."""
    root = _Node(checkpoint, source, "checkpoint")
    if root.get("feature_mix") is not None:
        raise InputError("unsupported", f"{source}: feature_mix is set; only stem and blocks are supported")
    parts = [_convolution(root.child("first_conv"), "stem", 0, "relu6")]
    blocks = root.get("blocks")
    if type(blocks) is not list:
        raise root.wrong("blocks must be a list")
    for index, block in enumerate(blocks):
        parts += _block(_Node(block, source, f"block{index}"), index, parts[-1][0].name)
        # A pickle can name one block, and its arrays, any number of times.
        if sum(layer.n_weights for layer, *_ in parts) > MAX_FILE or index > MAX_BLOCKS:
            raise InputError("file-damaged", f"{source}: more weights than the file has bytes")
    layers, weights, scales, biases = zip(*parts, strict=True)
    spec = InputSpec((*layers[0].in_hw, layers[0].cin))
    network = Network(name, layers, weights, scales, biases, spec, quantisation=_quantisation(root, layers))
    check_network(network)
    return network


def _quantisation(root: "_Node", layers: tuple[Node, ...]) -> Quantisation | None:
    """Codes of what each layer gives; None if some are missing, or if one layer reads other codes than the
    layer before it gives.
    """
    nodes = [root.child("first_conv")]
    for index, content in enumerate(root.get("blocks")):
        block = _Node(content, root.source, f"block{index}")
        nodes += [block.child(key) for key in CONVOLUTIONS if block.get(key) is not None]
        if block.get("residual") is not None:
            nodes.append(block.child("residual"))
    found = [_codes(node.child("params")) for node in nodes]
    if None in found:
        return None
    parts, outputs, sums = iter(found), [], []
    reads = block = None  # what the last layer gave, and what the first layer of its block read
    for index, layer in enumerate(layers):
        x, output = next(parts)
        if index == 0 or layer.block != layers[index - 1].block:
            block = x
        outputs.append(output)
        skip, total = next(parts) if layer.adds else (block, None)
        sums.append(total)
        if (index and x != reads) or skip != block:
            return None
        reads = total or output
    return Quantisation(tuple(outputs), tuple(sums))


def _codes(params: "_Node") -> tuple[Codes, Codes] | None:
    """What a part reads and gives; None if the file does not say so."""
    if not params.value.keys() >= {"x_scale", "x_zero", "y_scale", "y_zero"}:
        return None
    return tuple(
        Codes(params.positive(f"{end}_scale"), params.whole(f"{end}_zero", -128, 127)) for end in "xy"
    )


def _block(node: "_Node", index: int, read: str) -> list[tuple]:
    """The convolutions of inverted bottleneck `index`; the last one adds the output `read` if it says so."""
    if node.get("se") is not None:
        raise InputError("unsupported", f"{node.where} has squeeze-excitation, which is not supported")
    given = [key for key in CONVOLUTIONS if node.get(key) is not None]
    if "pointwise2" not in given:
        raise node.wrong("pointwise2 is missing")
    found, adds = [], node.get("residual") is not None
    for key in given:
        name, ends = f"block{index}.{CONVOLUTIONS[key]}", key == "pointwise2"
        before = found[-1][0].name if found else read
        inputs = (before, read) if adds and ends else ()
        found.append(_convolution(node.child(key), name, index + 1, None if ends else "relu6", inputs))
    return found


def _convolution(
    node: "_Node", name: str, block: int, activation: str | None, inputs: tuple[str, ...] = ()
) -> tuple:
    """(Node, weight (fan_in, cout) int8, scale (cout,) float32, bias (cout,) float32)."""
    if node.get("act") not in (None, "relu6"):
        raise InputError("unsupported", f"{node.where}: the only supported activation is ReLU6")
    cin, cout, groups = (node.whole(key) for key in ("in_channel", "out_channel", "groups"))
    kernel = node.get("kernel_size")
    if type(kernel) is not tuple or len(kernel) != 2 or kernel[0] != kernel[1] or type(kernel[0]) is not int:
        raise node.wrong("kernel_size must be two equal whole numbers")
    if groups not in (1, cin):
        raise InputError("unsupported", f"{node.where}: {groups} groups; supported are 1 and {cin}")
    kernel, depthwise = kernel[0], groups == cin and cin > 1
    stride = node.whole("stride")
    kind = "depthwise" if depthwise else "pointwise" if (kernel, stride) == (1, 1) else "conv"
    sides = [(node.whole(key),) * 2 for key in ("in_shape", "out_shape")]
    layer = Node(name, kind, cin, cout, kernel, stride, *sides, activation, block, inputs)

    params = node.child("params")
    weight = params.array("weight", "i1", (cout, 1 if depthwise else cin, kernel, kernel))
    scale = params.array("w_scales", "f4", (cout,)).copy()
    # Scales that are no numbers are found, and named, by check_network.
    with np.errstate(all="ignore"):
        bias = params.array("bias", "i4", (cout,)) * scale.astype(np.float64) * params.positive("x_scale")
        bias = bias.astype(np.float32)
    matrix = np.ascontiguousarray(weight.transpose(2, 3, 1, 0)).reshape(layer.fan_in, cout)
    return layer, matrix, scale, bias


class _Node:
    """A dictionary of the checkpoint whose values are checked when they are asked for."""

    def __init__(self, value, source: str, path: str):
        self.value, self.source, self.path = value, source, path
        self.where = f"{source}: {path}"
        if not isinstance(value, dict):
            raise self.wrong("must be a dictionary")

    def wrong(self, what: str) -> InputError:
        return InputError("unsupported", f"{self.where}: {what}; supported are the published int8 networks")

    def get(self, key: str):
        if key not in self.value:
            raise self.wrong(f"{key} is missing")
        return self.value[key]

    def child(self, key: str) -> "_Node":
        return _Node(self.get(key), self.source, f"{self.path}.{key}")

    def whole(self, key: str, least: int = 1, most: int = 2**16) -> int:
        value = self.get(key)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(f"{key} must be a whole number {least}..{most}")
        return value

    def positive(self, key: str) -> float:
        value = self.get(key)
        if type(value) is not float or not 0 < value < math.inf:
            raise self.wrong(f"{key} must be a number above 0")
        return value

    def array(self, key: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        array = self.get(key)
        if not isinstance(array, np.ndarray) or array.dtype != np.dtype(dtype) or array.shape != shape:
            raise self.wrong(f"{key} must be {np.dtype(dtype)} of shape {shape}")
        return array
