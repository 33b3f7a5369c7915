"""A network as data: operations in order of execution, frozen weights, shapes, parameters and MACs.

Those of its nodes that have weights are its layers, and their numbers are what updates, gradients and deltas
name.

Weights are kept the way the kernels use them: a matrix of shape (fan_in, cout), one
column per output channel, where fan_in runs over (kernel row, kernel column, input
channel) for dense convolutions, (input channel) for pointwise ones and (kernel row,
kernel column) for depthwise ones. A trained slice is then always a set of columns.

A block may have a lite residual module (TinyTL) beside it. Its two convolutions have numbers
behind those of the layers, so that updates, gradients and deltas name them like any other.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.random_streams import rng_for
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.lite_residual import Module, possible_modules, with_branches
from tinytrain.network.node import Node, sources_of
from tinytrain.network.quantisation import Quantisation
from tinytrain.network.topology import rows_of

PLAIN = InputSpec()


@dataclass(frozen=True, eq=False)
class Network:
    """Frozen backbone. Its embedding is the global average of the last node's output.

    A list by layer has an entry for each node that has weights, in their order.
    `weights[i]` is (fan_in, cout), int8 with `scales[i]` (cout,) float32, or float32 with
    `scales[i]` None; `biases[i]` is (cout,) float32. `added` holds float32 (weight, bias) by index in
    `all_layers` of those modules that the network has. All arrays are read-only. `quantisation` are the codes
    of int8 programs; the digest of a network is the same with and without them.
    """

    name: str
    nodes: tuple[Node, ...]
    weights: tuple[np.ndarray, ...]
    scales: tuple[np.ndarray | None, ...]
    biases: tuple[np.ndarray, ...]
    input: InputSpec = PLAIN
    added: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    quantisation: Quantisation | None = None

    def __post_init__(self):
        added = (array for pair in self.added.values() for array in pair)
        for array in (*self.weights, *self.biases, *(s for s in self.scales if s is not None), *added):
            array.flags.writeable = False

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        self.__post_init__()  # arrays that were pickled are writeable

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.input.shape))
        size = f"{len(self.layers)} layers, {self.n_weights:,} weights, {self.macs:,} MACs"
        return f"<Network {one_line(self.name, 100)!r}: {shape}, {size}, digest {self.digest[:12]}>"

    @cached_property
    def layers(self) -> tuple[Node, ...]:
        """The nodes that have weights."""
        return tuple(node for node in self.nodes if node.is_layer)

    @cached_property
    def graph(self) -> tuple[Node, ...]:
        """All operations in order of execution: the nodes, and those of the modules that the network has."""
        modules = {self.layers[module.last].name: module for module in self.modules}
        return with_branches(self.nodes, modules)

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """For each of `graph` the numbers of those that it reads; -1 is the image."""
        return sources_of(self.graph)

    @cached_property
    def numbers(self) -> tuple[int | None, ...]:
        """For each of `graph` its number in `all_layers`, or None if it has no weights."""
        known = {layer.name: i for i, layer in enumerate(self.all_layers)}
        return tuple(known[node.name] if node.is_layer else None for node in self.graph)

    def position(self, layer: int) -> int:
        """Number in `graph` of layer `layer`; the end of `graph` for the number of layers."""
        return len(self.graph) if layer == len(self.layers) else self.numbers.index(layer)

    @cached_property
    def possible_modules(self) -> tuple[Module, ...]:
        """The module that each block, or in a transformer each dense layer, can be given."""
        return possible_modules(self.layers, self.attends)

    @property
    def modules(self) -> tuple[Module, ...]:
        """The modules that the network has."""
        return tuple(m for m in self.possible_modules if m.index in self.added)

    def modules_of(self, layers: Iterable[int]) -> tuple[Module, ...]:
        """The modules, had or possible, that any of these `layers` belong to."""
        named = set(layers)
        return tuple(m for m in self.possible_modules if not named.isdisjoint(m.indices))

    @cached_property
    def all_layers(self) -> tuple[Node, ...]:
        """The layers, and behind them the two of each possible module, whether the network has it or not."""
        return (*self.layers, *(layer for m in self.possible_modules for layer in m.layers))

    @property
    def attends(self) -> bool:
        """Whether it is a transformer."""
        return any(node.op == "attention" for node in self.nodes)

    @property
    def embedding_size(self) -> int:
        return self.nodes[-1].cout

    @property
    def n_weights(self) -> int:
        return sum(layer.n_weights for layer in self.layers)

    @property
    def macs(self) -> int:
        """Forward multiply-accumulates for one image."""
        return sum(node.macs for node in self.nodes)

    def check_finite(self) -> None:
        """Raise InputError for a weight, scale or bias that is NaN or infinite."""
        for i in (*range(len(self.layers)), *self.added):
            if i in self.added:
                parts = dict(zip(("weight", "bias"), self.added[i], strict=True))
            else:
                parts = {"weight": self.weights[i], "scale": self.scales[i], "bias": self.biases[i]}
            for part, array in parts.items():
                bad = 0 if array is None else int(array.size - np.isfinite(array).sum())
                if bad:
                    name = f"{self.all_layers[i].name}.{part}"
                    raise InputError(
                        "network-not-finite",
                        f"{self.name}: {bad} of {array.size} numbers of {name} are NaN or infinite; "
                        "take another backbone",
                    )

    def float_weight(self, index: int, out: np.ndarray | None = None) -> np.ndarray:
        """Float32 weight (fan_in, cout) of layer `index`: a new array, or written to `out`."""
        if index in self.added:
            weight, scale = self.added[index][0], None
        else:
            weight, scale = self.weights[index], self.scales[index]
        if out is None:
            return weight.astype(np.float32) if scale is None else weight * scale
        np.copyto(out, weight)
        if scale is not None:
            for row in out:  # row by row: numpy takes a buffer to broadcast over the whole
                row *= scale
        return out

    def bias(self, index: int) -> np.ndarray:
        """Float32 bias (cout,) of layer `index`."""
        return self.added[index][1] if index in self.added else self.biases[index]

    def block_start(self, index: int) -> int:
        """Index of the first layer of the block that layer `index` belongs to."""
        while index > 0 and self.layers[index - 1].block == self.layers[index].block:
            index -= 1
        return index

    @cached_property
    def digest(self) -> str:
        """sha256 over a canonical byte sequence of topology, weights, scales, biases and input.

        The same network has the same digest whatever file it came from; its name is not part of it.
        """
        topology = {
            "layers": rows_of(self.nodes),
            "preprocessing": self.input.as_dict(),
        }
        if self.added:
            topology["added"] = sorted(self.added)
        sha = hashlib.sha256(json.dumps(topology, sort_keys=True, separators=(",", ":")).encode())
        added = (self.added[index] for index in sorted(self.added))
        for parts in (*zip(self.weights, self.scales, self.biases, strict=True), *added):
            for array in parts:
                if array is not None:
                    sha.update(array.dtype.str.encode() + str(array.shape).encode())
                    sha.update(np.ascontiguousarray(array).reshape(-1))
        return sha.hexdigest()


def frozen_bytes(network: Network) -> int:
    """Bytes of the network's arrays as they are kept: weights, their scales, biases."""
    arrays = (*network.weights, *network.biases, *(s for s in network.scales if s is not None))
    return sum(a.nbytes for a in arrays)


SEED = 0  # of the first filters: the same for every task


def with_modules(network: Network, modules: Iterable[Module]) -> Network:
    """`network` with these modules too; one that it has already keeps its values.

    The filter is drawn (He et al., ICCV 2015), the convolution behind it is zero: a new module leaves every
    embedding as it is.
    """
    new = [module for module in modules if module.index not in network.added]
    if not new:
        return network
    added = dict(network.added)
    for module in new:
        added |= _start(module)
    return replace(network, added=added)


def _start(module: Module) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Values (weight, bias) that a module starts with, by layer."""
    filtered, projected = module.layers
    drawn = rng_for(SEED, "lite residual module", module.index).standard_normal(
        (filtered.fan_in, filtered.cout), np.float32
    )
    drawn *= np.float32((2 / filtered.fan_in) ** 0.5)
    zeros = np.zeros((projected.fan_in, projected.cout), np.float32)
    return {
        module.index: (drawn, np.zeros(filtered.cout, np.float32)),
        module.index + 1: (zeros, np.zeros(projected.cout, np.float32)),
    }


def int8_scales(weight: np.ndarray) -> np.ndarray:
    """Steps (cout,) float32 of a float weight (fan_in, cout): the largest of a channel becomes 127."""
    return np.maximum(np.abs(weight).max(axis=0), np.float32(1e-12)) / np.float32(127)


def quantised(network: Network) -> Network:
    """`network` with int8 weights: those that are float32 are rounded."""
    weights, scales = list(network.weights), list(network.scales)
    for i, weight in enumerate(network.weights):
        if scales[i] is None:
            scales[i] = int8_scales(weight)
            weights[i] = np.rint(weight / scales[i]).astype(np.int8)
    return replace(network, weights=tuple(weights), scales=tuple(scales))
