"""What every policy shares: its row in the registry, learning rates, and shrinking a selection."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinytrain.network import Network
from tinytrain.plan import Budget, Recipe, TaskShape, Update
from tinytrain.probe import Scores

RELATIVE_RATE = 0.02  # learning rate of a weight as a share of the rms of its layer's weights


@dataclass(frozen=True)
class Policy:
    """A named way to choose what is trained.

    `recipe(network, scores, budget, task, share)` returns a `Recipe`; with `share` below 1 it trains
    that part of its usual selection, at 0 the least it can (one channel or bias). `inspects(network)`
    names the layers it wants probed. `citation` names the method.
    """

    name: str
    recipe: Callable[[Network, Scores | None, Budget, TaskShape, float], Recipe]
    citation: str
    inspects: Callable[[Network], tuple[int, ...]] | None = None
    shrinks: bool = True
    macs_limited: bool = True


def all_channels(network: Network, layer: int) -> tuple[int, ...]:
    return tuple(range(network.layers[layer].cout))


def weight_rms(network: Network, layer: int) -> float:
    weight = network.float_weight(layer)
    return float(np.sqrt(np.mean(weight * weight)))


def rates_by_size(network: Network, updates, relative=RELATIVE_RATE) -> tuple[tuple[float, float], ...]:
    """(weight, bias) learning rates in proportion to the size of each layer's weights."""
    sizes = [relative * weight_rms(network, u.layer) for u in updates]
    return tuple((size, size) for size in sizes)


def scaled(network: Network, updates: tuple[Update, ...], share: float) -> tuple[Update, ...]:
    """The first `share` of each update's channels, listed best first; deepest update only when it is 0."""
    if share >= 1:
        return updates
    if share <= 0:
        last = updates[-1]
        return (Update(last.layer, last.channels[:1]),) if last.channels else (last,)
    kept = (Update(u.layer, u.channels[: max(1, int(share * len(u.channels)))], u.bias) for u in updates)
    return tuple(u for u in kept if u.channels or u.bias)
