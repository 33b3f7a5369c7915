"""Shared by all policies: the class `Policy`, learning rates, and reducing a selection."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.heads.registry import find_head
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.plan.scores import Scores

RELATIVE_RATE = 0.02  # learning rate of a weight as a fraction of the rms of its layer's weights
# The planner asks a policy for these fractions of its usual selection, in order, until one fits the memory.
FRACTIONS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)


@dataclass(frozen=True)
class Policy:
    """A named way to choose what is trained.

    `recipe(network, scores, budget, task, fraction)` returns a `Recipe` that trains this fraction of its
    usual selection; at 0 it trains the least possible (one channel or bias). `shrinks`: it can train less
    than its usual selection. `inspects(network)` names the layers that need Fisher scores. `citation` names
    the method. `macs_limited`: it keeps the MAC budget. `macs_of_image`: it applies the MAC budget to each
    back-propagated image, whatever their number per step. `trains`: it trains parameters, not only a head.
    `fewer_macs`: smaller fractions of the MACs, in rising order, that are worth trying if time is short.
    """

    name: str
    recipe: Callable[[Network, Scores | None, Budget, TaskShape, float], Recipe]
    citation: str
    inspects: Callable[[Network], tuple[int, ...]] | None = None
    shrinks: bool = True
    macs_limited: bool = True
    macs_of_image: bool = False
    trains: bool = True
    fewer_macs: tuple[float, ...] = ()

    def with_rates(self, scale: float) -> "Policy":
        """The same policy with learning rates times `scale`. Raises UsageError unless `scale` is above 0."""
        if not (scale > 0 and math.isfinite(scale)):
            raise UsageError("usage", f"learning rates cannot be scaled by {scale}; give a number above 0")

        def scaled_recipe(*arguments) -> Recipe:
            recipe = self.recipe(*arguments)
            return replace(recipe, rates=tuple((scale * w, scale * b) for w, b in recipe.rates))

        return self if scale == 1 else replace(self, recipe=scaled_recipe)

    def with_head(self, head: str) -> "Policy":
        """The same policy with that head, whichever it would choose, as ``NAME+HEAD``. Raises UsageError."""
        name = f"{self.name.partition('+')[0]}+{find_head(head).name}"

        def recipe_with_head(*arguments) -> Recipe:
            return replace(self.recipe(*arguments), policy=name, head=head)

        return replace(self, name=name, recipe=recipe_with_head)


def at_one_rate(name: str, updates: tuple[Update, ...], rate: float, **options) -> Recipe:
    """A recipe as in most papers: one rate for weights and biases, and trained cosine prototypes as head."""
    facts = {"step": "both", "head": "cosine"} | options
    return Recipe(name, updates, ((rate, rate),) * len(updates), **facts)


def norms(network: Network, layer: int, axis: str = "inputs") -> np.ndarray:
    """L2 norm of the weights of each input channel ("inputs", (cin,)) or output channel ("outputs", (cout,)).

    Only of a pointwise layer input channels can be told apart: for any other these are its output channels.
    """
    weight = network.float_weight(layer)
    whole = axis == "outputs" or not network.layers[layer].row.by_input
    return np.linalg.norm(weight, axis=0 if whole else 1)


def all_channels(network: Network, layer: int) -> tuple[int, ...]:
    return tuple(range(network.layers[layer].cout))


def selectable(network: Network, layer: int) -> int:
    """How many channels of a layer can be selected: the inputs of a pointwise one, outputs of any other."""
    found = network.layers[layer]
    return found.cin if found.row.by_input else found.cout


def update_of(network: Network, layer: int, chosen: tuple[int, ...], bias: bool = False) -> Update:
    """Trains the weights of the `chosen` ones of these channels."""
    if not network.layers[layer].row.by_input:
        return Update(layer, chosen, bias)
    inputs = chosen if len(chosen) < network.layers[layer].cin else None
    return Update(layer, all_channels(network, layer), bias, inputs)


def learning_rates_by_size(
    network: Network, updates, relative=RELATIVE_RATE
) -> tuple[tuple[float, float], ...]:
    """(weight, bias) learning rates in proportion to the rms of each layer's weights, times its factor."""
    squares = (np.square(network.float_weight(u.layer)) for u in updates)
    rms = (float(np.sqrt(np.mean(square))) for square in squares)
    sizes = [relative * x * network.all_layers[u.layer].rate for x, u in zip(rms, updates, strict=True)]
    return tuple((size, size) for size in sizes)


def scaled(network: Network, updates: tuple[Update, ...], fraction: float) -> tuple[Update, ...]:
    """The first `fraction` of the channels of each update (best first); at 0 only the last update.

    If an update has `inputs`, these are reduced and its output channels stay.
    """
    if fraction >= 1 or not updates:
        return updates
    if fraction <= 0:
        last = updates[-1]
        return (Update(last.layer, last.channels[:1], inputs=last.inputs),) if last.channels else (last,)

    def first(channels: tuple[int, ...]) -> tuple[int, ...]:
        return channels[: max(1, int(fraction * len(channels)))]

    return tuple(
        replace(u, channels=first(u.channels)) if u.inputs is None else replace(u, inputs=first(u.inputs))
        for u in updates
    )
