"""What every policy shares: its row in the registry, learning rates, and shrinking a selection."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.plan.scores import Scores

RELATIVE_RATE = 0.02  # learning rate of a weight as a share of the rms of its layer's weights
# Of its usual selection a policy is asked for these parts, one after the other, until one fits the memory.
SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)


@dataclass(frozen=True)
class Policy:
    """A named way to choose what is trained.

    `recipe(network, scores, budget, task, share)` returns a `Recipe`; with `share` below 1 it trains
    that part of its usual selection, at 0 the least it can (one channel or bias). `inspects(network)`
    names the layers it wants probed. `citation` names the method. `macs_limited`: it keeps the MAC budget,
    `macs_of_image`: as a limit on one back-propagated image, however many of them a step has.
    """

    name: str
    recipe: Callable[[Network, Scores | None, Budget, TaskShape, float], Recipe]
    citation: str
    inspects: Callable[[Network], tuple[int, ...]] | None = None
    shrinks: bool = True
    macs_limited: bool = True
    macs_of_image: bool = False

    def with_rates(self, scale: float) -> "Policy":
        """The same policy with `scale` times its learning rates. Raises UsageError unless above 0."""
        if not (scale > 0 and math.isfinite(scale)):
            raise UsageError(
                "rate-scale", f"learning rates cannot be scaled by {scale}; give a number above 0"
            )

        def scaled_recipe(*arguments) -> Recipe:
            recipe = self.recipe(*arguments)
            return replace(recipe, rates=tuple((scale * w, scale * b) for w, b in recipe.rates))

        return self if scale == 1 else replace(self, recipe=scaled_recipe)


def norms(network: Network, layer: int, axis: str = "inputs") -> np.ndarray:
    """L2 norm of the weights of each of a layer's "inputs" (cin,) or "outputs" (cout,).

    A depthwise layer has one input per output, so both are the same.
    """
    weight = network.float_weight(layer)
    whole = axis == "outputs" or network.layers[layer].kind == "depthwise"
    return np.linalg.norm(weight, axis=0 if whole else 1)


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
    """The first `share` of each update's channels, listed best first; deepest update only when it is 0.

    Of an update with `inputs` these are shortened, and its output channels stay.
    """
    if share >= 1 or not updates:
        return updates
    if share <= 0:
        last = updates[-1]
        return (Update(last.layer, last.channels[:1], inputs=last.inputs),) if last.channels else (last,)

    def first(channels: tuple[int, ...]) -> tuple[int, ...]:
        return channels[: max(1, int(share * len(channels)))]

    return tuple(
        replace(u, channels=first(u.channels)) if u.inputs is None else replace(u, inputs=first(u.inputs))
        for u in updates
    )
