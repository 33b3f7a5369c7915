"""Weights of a network as kernels read them, which training may write to."""

import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from tinytrain.base.arena import Arena
from tinytrain.network.network import Network
from tinytrain.program.memory_planner import aligned
from tinytrain.program.program import Program

Part = tuple[int, str]  # a layer, and its "weight" or "bias"
# Parts of networks that no copy writes to, by kind of copy.
FROZEN: WeakKeyDictionary[Network, dict[Hashable, dict[Part, object]]] = WeakKeyDictionary()


def parts_of(layers: Iterable[int]) -> list[Part]:
    return [(i, part) for i in layers for part in ("weight", "bias")]


class WorkingCopy:
    """Float32 weights and biases of a network. Training may write to the parts `own`; the network stays.

    They are all of them by default. The others are made once for all copies for networks that have the values
    of `base`, and nobody writes to them. Layers of lite residual modules are always its own.
    """

    def __init__(self, network: Network, own: Collection[Part] | None = None, base: Network | None = None):
        self.network, self.base, every = network, base or network, parts_of(range(len(network.layers)))
        self.own = every if own is None else own
        common = [p for p in every if p not in self.own and self._is_same(self.base, *p)]
        kept = FROZEN.setdefault(self.base, {}).setdefault(self.kind, {})
        if missing := [p for p in common if p not in kept]:
            kept |= self._made(self.base, missing)
        self._parts = {p: kept[p] for p in common}
        alone = [p for p in (*every, *parts_of(network.added)) if p not in self._parts]
        self._parts |= self._made(network, alone)

    @property
    def kind(self) -> Hashable:
        """Copies of one kind for one network hold the same values."""
        return type(self)

    def _is_same(self, base: Network, i: int, part: str) -> bool:
        """Whether `base` has the values of a part."""
        if part == "bias":
            return self.network.biases[i] is base.biases[i]
        return self.network.weights[i] is base.weights[i] and self.network.scales[i] is base.scales[i]

    def _made(self, network: Network, parts: Sequence[Part]) -> dict[Part, np.ndarray]:
        """Weights (fan_in, cout) and biases (cout,), float32, all in one block."""
        shapes = [(layer.fan_in, layer.cout) for layer in (network.all_layers[i] for i, _ in parts)]
        arrays = _in_cache_lines([s[part == "bias" :] for s, (_, part) in zip(shapes, parts, strict=True)])
        for part, array in zip(parts, arrays, strict=True):
            self._fill(network, *part, array)
        return dict(zip(parts, arrays, strict=True))

    def weight(self, layer: int) -> np.ndarray:
        return self._parts[layer, "weight"]

    def bias(self, layer: int) -> np.ndarray:
        return self._parts[layer, "bias"]

    def part(self, layer: int, part: str) -> np.ndarray:
        """Weights (fan_in, cout), or biases (1, cout)."""
        return self.weight(layer) if part == "weight" else self.bias(layer)[None]

    def settle(self) -> None:
        """What has to be done to the parts `own` once a step of training has written to them."""

    def restore(self) -> None:
        """The network's own values again."""
        for part in (*self.own, *parts_of(self.network.added)):
            self._fill(self.network, *part, self._parts[part])

    def _fill(self, network: Network, i: int, part: str, out: np.ndarray) -> None:
        """Write the values of a part of `network` into `out`."""
        if part == "weight":
            network.float_weight(i, out=out)
        else:
            np.copyto(out, network.bias(i))


def _in_cache_lines(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Float32 arrays that begin with a cache line each: a vector across two of them takes two loads."""
    sizes = [aligned(4 * math.prod(shape)) for shape in shapes]
    block = Arena(sum(sizes))
    ends = itertools.accumulate(sizes)
    return [block.view(e - n, s, np.float32) for e, n, s in zip(ends, sizes, shapes, strict=True)]


def working_copy(program: Program, base: Network | None = None) -> WorkingCopy:
    """A working copy of the network of `program`, in its backend, for what the program trains.

    What is not trained is shared with other copies for `base`, by default that network.
    """
    updates = program.recipe.updates if program.recipe else ()
    own = {part for update in updates for part in program.backend.written(update)}
    return program.backend.copy(program.network, own, base)
