"""What is trained, how, and with which bytes: the values that a policy decides and the engine obeys."""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.episode.augment import USUAL, Ranges
from tinytrain.network.lite_residual import Module
from tinytrain.network.network import Network
from tinytrain.plan.scores import Scores


@dataclass(frozen=True)
class Update:
    """What is trained of one layer: the weights of some output channels, the bias of all, or both.

    `layer` counts in `Network.all_layers`: beyond the layers lie the lite residual modules. One that is
    trained is trained whole, and where the network does not have it yet it is added.

    `inputs` limits the weights of a pointwise layer further, to those that read these input channels
    (None: all of them); only these channels of its input are then saved. A depthwise layer reads one
    input channel per output channel, so `channels` says it all.
    """

    layer: int
    channels: tuple[int, ...] = ()
    bias: bool = False
    inputs: tuple[int, ...] | None = None

    def n_weights(self, network: Network) -> int:
        fan_in = network.all_layers[self.layer].fan_in
        return len(self.channels) * (fan_in if self.inputs is None else len(self.inputs))

    def n_biases(self, network: Network) -> int:
        return network.all_layers[self.layer].cout if self.bias else 0


def check_recipe(network: Network, recipe: "Recipe") -> None:
    """Raise UsageError unless `network` can be trained by `recipe`, whatever the budget."""
    try:
        hash(recipe)
    except TypeError as error:
        raise _bad_recipe(f"a part of the recipe can be changed ({error}), give tuples") from error
    check_updates(network, recipe.updates)
    if len(recipe.rates) != len(recipe.updates):
        raise _bad_recipe(f"{len(recipe.rates)} pairs of learning rates for {len(recipe.updates)} layers")
    if recipe.updates and recipe.steps < 1:
        raise _bad_recipe(f"{len(recipe.updates)} layers are to be trained in {recipe.steps} steps")
    if any(layer >= len(network.layers) for layer in recipe.measured):
        raise _bad_recipe("quotas are for layers of the network, not for lite residual modules")
    decay = recipe.decay
    if not isinstance(decay, tuple) or len(decay) != 2 or not all(map(_is_share, (decay[0] or 0, decay[1]))):
        raise _bad_recipe(f"decay is {decay}, not a pair of shares of the steps")
    ranges = recipe.options.augmentation
    if not isinstance(ranges, Ranges) or not ranges.possible:
        raise _bad_recipe(f"augmentation is {ranges}, not ranges that can be drawn from")


def _is_share(value: float | None) -> bool:
    return value is not None and 0 <= value <= 1


def check_updates(network: Network, updates: tuple[Update, ...]) -> None:
    """Raise UsageError unless `updates` are in layer order and name channels that `network` has."""
    order = [u.layer for u in updates]
    if order != sorted(set(order)) or (order and not 0 <= order[0] <= order[-1] < len(network.all_layers)):
        raise _bad_recipe(f"layers {order} are not different layers of {network.name} in rising order")
    for u in updates:
        layer = network.all_layers[u.layer]
        for chosen, count in ((u.channels, layer.cout), (u.inputs or (), layer.cin)):
            if len(set(chosen)) < len(chosen) or any(not 0 <= c < count for c in chosen):
                raise _bad_recipe(f"{layer.name} is to train channels twice, or some it does not have")
        if not u.channels and not u.bias:
            raise _bad_recipe(f"nothing is to be trained of {layer.name}")
        if u.inputs is not None and (not layer.row.by_input or not u.channels or not u.inputs):
            raise _bad_recipe(
                f"{layer.name} ({layer.op}) cannot be limited to {len(u.inputs)} input channels"
            )
        if u.layer >= len(network.layers) and not _whole_module(network, u, order):
            raise _bad_recipe(
                f"of the lite residual module that {layer.name} belongs to only a part is trained"
            )


def _whole_module(network: Network, update: Update, order: list[int]) -> bool:
    """Whether an update is one of two that train all of a module: it starts as nothing that a file holds."""
    layer = network.all_layers[update.layer]
    module = trained_modules(network, (update,))[0]
    whole = len(update.channels) == layer.cout and update.inputs is None and update.bias
    return whole and set(module.indices) <= set(order)


def _bad_recipe(what: str) -> UsageError:
    return UsageError("usage", f"{what}; correct the policy")


ROUNDINGS = ("nearest", "truncated", "stochastic", "carried", "masters")


@dataclass(frozen=True)
class Arithmetic:
    """The numbers that a network is computed and trained in.

    `precision`: the name of a backend: float32; int8, for 8-bit weights, activations and cached features, and
    float32 gradients; or another. The rest is for int8. `rounding` of an updated weight: "nearest";
    "truncated" towards zero; "stochastic", up or down at random; "carried", to the nearest, and what is lost
    is kept in 8 bits for the next step; "masters", to the nearest from a float32 copy. `scaled`: steps are
    those of the float32 weights (quantisation-aware scaling, Lin et al., NeurIPS 2022); otherwise gradients
    of codes are not scaled.
    """

    precision: str = "float32"
    rounding: str = "carried"
    scaled: bool = True


@dataclass(frozen=True)
class StepOptions:
    """What a training step does beyond the plain one; the defaults are the plain one.

    `hard_fraction`: fraction of the images that is back-propagated as pseudo-queries, those with the highest
    loss. `sampled_fraction`: fraction of support images back-propagated per step by "both", resampled and
    reweighted so that the expected gradient is unbiased. `single_pass`: a step computes only the images that
    it back-propagates, each of them once: pseudo-queries are chosen by their losses in earlier steps, and
    prototypes are running means (`plan.costs.single_pass` says when it applies). `resample_channels`: before
    every epoch, that is a pass over all support images, each layer gets other input channels, drawn at
    random, as many as the updates name (output channels if these limit output channels only, and in depthwise
    layers); the optimizer then starts anew. `entropy`: weight in the loss of the mean Shannon entropy of what
    is predicted for query images, whose labels stay unknown; every step then looks at as many of them as at
    pseudo-queries. `temperature`: of the cosines in the loss.
    `augmentation`: how far pseudo-queries are changed if every step has views of its own. `arithmetic`: the
    numbers that everything is computed in. `quotas`: the updates say how many channels of each layer are
    trained; which ones, Fisher scoring of the task decides (`Recipe.with_channels`). `last_step`: the one
    after which training ended although the learning rates were for more, because its time was up; None if it
    makes all steps.
    """

    hard_fraction: float = 1.0
    sampled_fraction: float = 1.0
    single_pass: bool = False
    resample_channels: bool = False
    entropy: float = 0.0
    temperature: float = 10.0
    augmentation: Ranges = USUAL
    arithmetic: Arithmetic = Arithmetic()
    quotas: bool = False
    last_step: int | None = None


@dataclass(frozen=True)
class Recipe:
    """What a policy wants for one task.

    `updates` in layer order, `rates` their (weight, bias) learning rates. `step`: "both" sends the gradient
    through prototypes and pseudo-queries, "constant" through the pseudo-queries only. `decay`: fraction of
    final steps over which the learning rate decays linearly to 0 if views are cached, and if every step has
    views of its own; 0 disables decay. If the first one is None, views are never cached (`fresh`). `views`
    is the number of augmented views per support image that the policy would like to have, for the head and in
    the cache.
    """

    policy: str
    updates: tuple[Update, ...]
    rates: tuple[tuple[float, float], ...]
    optimizer: str = "adam"
    step: str = "constant"
    options: StepOptions = StepOptions()
    decay: tuple[float | None, float] = (0.0, 0.0)
    steps: int = 40
    head: str = "lda"
    views: int = 8

    @property
    def fresh(self) -> bool:
        """Whether every step has views of its own, even if there is memory to cache some."""
        return self.decay[0] is None

    @property
    def precision(self) -> str:
        return self.options.arithmetic.precision

    @property
    def n_steps(self) -> int:
        """Steps that are made: `steps`, or fewer if training ends before."""
        last = self.options.last_step
        return self.steps if last is None else min(last, self.steps)

    @property
    def measured(self) -> tuple[int, ...]:
        """With `quotas`: the layers of trained weights, whose channels Fisher scoring of the task chooses."""
        return tuple(u.layer for u in self.updates if u.channels) if self.options.quotas else ()

    def with_channels(self, scores: Scores | None) -> "Recipe":
        """The same with the channels of each measured layer that have the most Fisher information.

        They are as many as before, in rising order; of equals the first ones are taken. Without scores they
        stay what they are.
        """

        def chosen(u: Update) -> Update:
            return replace(u, channels=most(scores.fisher[u.layer], len(u.channels)))

        measured = self.measured if scores else ()
        return replace(self, updates=tuple(chosen(u) if u.layer in measured else u for u in self.updates))

    def in_precision(self, precision: str, rounding: str = Arithmetic.rounding, scaled=True) -> "Recipe":
        """The same recipe in other numbers."""
        arithmetic = Arithmetic(precision, rounding, scaled)
        return replace(self, options=replace(self.options, arithmetic=arithmetic))


def most(fisher: np.ndarray, count: int) -> tuple[int, ...]:
    """The `count` channels with the most `fisher` (cout,), in rising order; of equals the first ones."""
    return tuple(sorted(np.argsort(-fisher, kind="stable")[:count].tolist()))


MOST_WORKERS = 8  # where there is memory for them


@dataclass(frozen=True)
class Resources:
    """What the bytes are spent on.

    `sets`: cached sets of features: 0 (none), 1 (the clean images) or 1 + views. `micro`: images per call
    behind the cut. `step_support`: images of one step, of which it looks at `step_queries`, clean and as
    pseudo-queries; heads embed `step_support` images at once. `workers`: the most that work at once.
    `small_head`: the head is fitted to fewer views of each image, so that it takes less memory, often to the
    image as it is alone.
    """

    sets: int
    micro: int
    step_support: int
    step_queries: int
    workers: int = 1
    small_head: bool = False


def trained_modules(network: Network, updates: tuple[Update, ...]) -> tuple[Module, ...]:
    """The lite residual modules that are trained."""
    return network.modules_of(u.layer for u in updates)
