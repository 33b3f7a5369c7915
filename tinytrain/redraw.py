"""Slots with other channels: drawn at random while training runs, and everything that was ever drawn."""

from dataclasses import replace

import numpy as np

from tinytrain.network import Network
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
    channels = tuple(sorted({*a.channels, *b.channels}))
    inputs = None if a.inputs is None else tuple(sorted({*a.inputs, *b.inputs}))
    return replace(a, channels=channels, inputs=inputs)
