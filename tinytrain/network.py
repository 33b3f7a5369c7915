"""A network as data: convolution layers in order, frozen weights, shapes, parameters and MACs.

Weights are kept the way the kernels use them: a matrix of shape (fan_in, cout), one
column per output channel, where fan_in runs over (kernel row, kernel column, input
channel) for dense convolutions, (input channel) for pointwise ones and (kernel row,
kernel column) for depthwise ones. A trained slice is then always a set of columns.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from tinytrain.errors import InputError

KINDS = ("conv", "pointwise", "depthwise")


@dataclass(frozen=True)
class Layer:
    """One convolution with its bias; ReLU6 and the residual addition that follow belong to it.

    `block` counts the blocks of the network (the stem is block 0); `residual` says that
    the input of the layer's block is added to its output. Padding is (kernel - 1) // 2.
    """

    name: str
    kind: str
    cin: int
    cout: int
    kernel: int
    stride: int
    in_hw: tuple[int, int]
    out_hw: tuple[int, int]
    relu6: bool
    block: int
    residual: bool = False

    @property
    def pad(self) -> int:
        return (self.kernel - 1) // 2

    @property
    def fan_in(self) -> int:
        """Rows of the weight matrix: weights per output channel."""
        return self.kernel**2 * (1 if self.kind == "depthwise" else self.cin)

    @property
    def n_weights(self) -> int:
        return self.fan_in * self.cout

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the forward pass for one picture."""
        return self.out_hw[0] * self.out_hw[1] * self.n_weights

    @property
    def in_size(self) -> int:
        """Numbers in the input of one picture."""
        return self.in_hw[0] * self.in_hw[1] * self.cin

    @property
    def out_size(self) -> int:
        """Numbers in the output of one picture."""
        return self.out_hw[0] * self.out_hw[1] * self.cout


@dataclass(frozen=True)
class Preprocessing:
    """How a picture becomes the input: shorter side resized (bilinear) to `size`, centre crop, RGB,
    then ``(uint8 - mean) * scale`` with one mean and scale for all channels."""

    size: int = 128
    mean: float = 127.5
    scale: float = 1 / 127.5
    resize: str = "short-side-bilinear-centre-crop"


@dataclass(frozen=True, eq=False)
class Network:
    """Frozen backbone. Its embedding is the global average of the last layer's output.

    `weights[i]` is (fan_in, cout), int8 with `scales[i]` (cout,) float32, or float32 with
    `scales[i]` None; `biases[i]` is (cout,) float32. All arrays are read-only.
    """

    name: str
    layers: tuple[Layer, ...]
    weights: tuple[np.ndarray, ...]
    scales: tuple[np.ndarray | None, ...]
    biases: tuple[np.ndarray, ...]
    preprocessing: Preprocessing = Preprocessing()

    def __post_init__(self):
        for array in (*self.weights, *self.biases, *(s for s in self.scales if s is not None)):
            array.flags.writeable = False

    @property
    def embedding_size(self) -> int:
        return self.layers[-1].cout

    @property
    def n_weights(self) -> int:
        return sum(layer.n_weights for layer in self.layers)

    @property
    def macs(self) -> int:
        """Forward multiply-accumulates for one picture."""
        return sum(layer.macs for layer in self.layers)

    def check_finite(self) -> None:
        """Raise InputError for a weight, scale or bias that is NaN or infinite."""
        for i, layer in enumerate(self.layers):
            parts = {"weight": self.weights[i], "scale": self.scales[i], "bias": self.biases[i]}
            for part, array in parts.items():
                bad = 0 if array is None else int(array.size - np.isfinite(array).sum())
                if bad:
                    raise InputError(
                        "network-not-finite",
                        f"{self.name}: {bad} of {array.size} numbers of {layer.name}.{part} are NaN or "
                        "infinite; take another backbone",
                    )

    def float_weight(self, index: int, out: np.ndarray | None = None) -> np.ndarray:
        """Float32 weight (fan_in, cout) of layer `index`: a new array, or written to `out`."""
        weight, scale = self.weights[index], self.scales[index]
        if out is None:
            return weight.astype(np.float32) if scale is None else weight * scale
        np.copyto(out, weight)
        if scale is not None:
            for row in out:  # row by row: numpy takes a buffer to broadcast over the whole
                row *= scale
        return out

    def block_start(self, index: int) -> int:
        """Index of the first layer of the block that layer `index` belongs to."""
        while index > 0 and self.layers[index - 1].block == self.layers[index].block:
            index -= 1
        return index

    @cached_property
    def digest(self) -> str:
        """sha256 over a canonical byte sequence of topology, weights, scales, biases and preprocessing.

        The same network has the same digest whatever file it came from; its name is not part of it.
        """
        topology = {
            "layers": [asdict(layer) for layer in self.layers],
            "preprocessing": asdict(self.preprocessing),
        }
        sha = hashlib.sha256(json.dumps(topology, sort_keys=True, separators=(",", ":")).encode())
        for parts in zip(self.weights, self.scales, self.biases, strict=True):
            for array in parts:
                if array is not None:
                    sha.update(array.dtype.str.encode() + str(array.shape).encode())
                    sha.update(np.ascontiguousarray(array).reshape(-1))
        return sha.hexdigest()
