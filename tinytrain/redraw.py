"""Slots with other channels: drawn at random while training runs, and everything that was ever drawn."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tinytrain.network import Network
from tinytrain.plan import Recipe
from tinytrain.segments import Slot


def redrawn(slot: Slot, network: Network, rng: np.random.Generator) -> Slot:
    """`slot` with as many other channels: inputs where it is limited to some, else output channels."""
    if slot.part == "bias":
        return slot
    layer = network.all_layers[slot.layer]
    if slot.inputs is not None:
        return replace(slot, inputs=_drawn(layer.cin, len(slot.inputs), rng))
    return replace(slot, channels=_drawn(layer.cout, len(slot.channels), rng))


def _drawn(count: int, some: int, rng: np.random.Generator) -> tuple[int, ...]:
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
    draws = 1 + -(-recipe.steps // epoch) if recipe.redraw else 1
    return tuple(_grown(slot, network, draws) for slot in slots)


def _grown(slot: Slot, network: Network, draws: int) -> Slot:
    if slot.part == "bias" or draws == 1:
        return slot
    layer = network.all_layers[slot.layer]
    if slot.inputs is not None:
        return _resized(slot, slot.channels, tuple(range(min(layer.cin, draws * len(slot.inputs)))))
    return _resized(slot, tuple(range(min(layer.cout, draws * len(slot.channels)))), None)
