"""Where trained arrays lie in the flat vector of trained parameters, and other channels for them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.network.network import Network
from tinytrain.plan.recipe import Recipe
from tinytrain.program.autodiff.tape import Trained
from tinytrain.program.calls import Buffer, Columns, View


@dataclass(frozen=True)
class Slot:
    """Where one trained array lies in the flat vector of trained numbers.

    `channels` are the columns of the weight or the entries of the bias; `inputs` the rows of the
    weight, None for all.
    """

    layer: int
    part: str  # "weight" or "bias"
    start: int
    shape: tuple[int, ...]
    channels: Sequence[int]
    inputs: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        return self.shape[0] * (self.shape[1] if len(self.shape) == 2 else 1)


def slots(network: Network, recipe: Recipe) -> tuple[Slot, ...]:
    """Slots of a recipe's trained arrays, in layer order, weights before biases, channels in rising order."""
    found, start = [], 0
    for update in recipe.updates:
        layer = network.all_layers[update.layer]
        if update.channels:
            inputs = None if update.inputs is None else tuple(sorted(update.inputs))
            shape = (layer.fan_in if inputs is None else len(inputs), len(update.channels))
            channels = tuple(sorted(update.channels))
            found.append(Slot(update.layer, "weight", start, shape, channels, inputs))
            start += found[-1].size
        if update.bias:
            found.append(Slot(update.layer, "bias", start, (layer.cout,), range(layer.cout)))
            start += layer.cout
    return tuple(found)


def columns_of(slots: Iterable[Slot]) -> dict[Columns, np.ndarray]:
    """The index arrays that the calls of a program name."""
    weights = [slot for slot in slots if slot.part == "weight"]
    found = {Columns(s.layer, len(s.channels)): np.array(s.channels, np.int32) for s in weights}
    found |= {
        Columns(s.layer, s.shape[0], "every input"): np.arange(s.shape[0], dtype=np.int32) for s in weights
    }
    some = (s for s in weights if s.inputs is not None)
    return found | {Columns(s.layer, len(s.inputs), "inputs"): np.array(s.inputs, np.int32) for s in some}


def trained_parts(network: Network, recipe: Recipe, gradients: Buffer) -> dict[int, Trained]:
    """Where the gradient of each trained layer lies in the flat vector of gradients."""
    parts: dict[int, dict] = {}
    for slot in slots(network, recipe):
        row = parts.setdefault(slot.layer, dict.fromkeys(("weight", "bias", "channels", "inputs")))
        row[slot.part] = View(gradients, slot.shape, slot.start)
        if slot.part == "weight" and len(slot.channels) < network.all_layers[slot.layer].cout:
            row["channels"] = len(slot.channels)
        if slot.inputs is not None:
            row["inputs"] = len(slot.inputs)
    return {layer: Trained(**row) for layer, row in parts.items()}


def resampled(slot: Slot, network: Network, rng: "np.random.Generator") -> Slot:
    """`slot` with as many other channels: inputs where it is limited to some, else output channels."""
    if slot.part == "bias":
        return slot
    layer = network.all_layers[slot.layer]
    if slot.inputs is not None:
        return replace(slot, inputs=_drawn(layer.cin, len(slot.inputs), rng))
    return replace(slot, channels=_drawn(layer.cout, len(slot.channels), rng))


def _drawn(count: int, some: int, rng: "np.random.Generator") -> tuple[int, ...]:
    return tuple(sorted(int(c) for c in rng.permutation(count)[:some]))


def union(a: Slot, b: Slot) -> Slot:
    """One slot with what either of two draws of the same slot trains; it has no place in the flat vector."""
    inputs = None if a.inputs is None else _both(a.inputs, b.inputs)
    return _resized(a, _both(a.channels, b.channels), inputs)


def _both(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """What is in either, in rising order. A set of hundreds would take tens of kB beside the arena."""
    chosen = np.zeros(max(*a, *b) + 1, bool)
    for some in (a, b):
        chosen[list(some)] = True
    return tuple(np.flatnonzero(chosen).tolist())


def _resized(slot: Slot, channels: tuple[int, ...], inputs: tuple[int, ...] | None) -> Slot:
    rows = slot.shape[0] if inputs is None else len(inputs)
    shape = (len(channels),) if slot.part == "bias" else (rows, len(channels))
    return replace(slot, channels=channels, inputs=inputs, shape=shape)


def most_changed(slots: Iterable[Slot], network: Network, recipe: Recipe, epoch: int) -> tuple[Slot, ...]:
    """`slots` with as many channels as training may change at the most.

    `epoch` is the number of steps in one pass over the support.
    """
    draws = 1 + -(-recipe.steps // epoch) if recipe.options.resample_channels else 1
    return tuple(_grown(slot, network, draws) for slot in slots)


def slice_size(slot: Slot, itemsize: int) -> int:
    """Float32 numbers that take as many bytes as the values and indices of `slot` in a delta.

    `itemsize` is that of its weights; every array begins with a new number.
    """
    values = -(-slot.size * itemsize // 4) if slot.part == "weight" else slot.size
    return values + len(slot.channels) + len(slot.inputs or ())


def _grown(slot: Slot, network: Network, draws: int) -> Slot:
    if slot.part == "bias" or draws == 1:
        return slot
    layer = network.all_layers[slot.layer]
    if slot.inputs is not None:
        return _resized(slot, slot.channels, tuple(range(min(layer.cin, draws * len(slot.inputs)))))
    return _resized(slot, tuple(range(min(layer.cout, draws * len(slot.channels)))), None)
