"""The default policy: the task decides where to cut the network and which channels to train above the cut.

Differences to the published method:

* It trains only expand convolutions (the pointwise layer that opens a block) and the biases above the cut.
  The published score divides by weights and MACs, and so chooses the same depthwise layers for almost every
  task.
* It tries every possible cut. The gradient down to the cut takes a part of the MAC and memory budget; the
  rest goes to the channels with the most Fisher information for this task. The cut with the most Fisher
  information in its channels wins.
* It back-propagates only as many images as the MAC budget allows: the hardest pseudo-queries, and for every
  two of them one random support image, so that the prototypes are trained as well. A step computes only
  these, each of them once: losses of earlier steps say which ones are hard, and prototypes are running means.
* Learning rates are proportional to the rms of a layer's weights, and decay in the second half of the steps.
  They are lower for fewer than five images of each class. The head is LDA on the embeddings.
* Every step has views of its own, because a few cached ones are soon learnt by heart. They are augmented more
  strongly, except if images of different classes look different to the backbone, as photographs do: rotated,
  scaled, and with 1.5 times the change of colour.
* More images are trained for longer.
* Of a transformer it trains channels of all dense layers of the last two blocks, not of the first of a block.
* In int8 the biases of those layers are trained whose weights are: bytes are few, and the others add nothing.
"""

import math
from dataclasses import dataclass

import numpy as np

from tinytrain.episode.augment import Ranges
from tinytrain.network.network import Network
from tinytrain.plan.budget import AUTO
from tinytrain.plan.costs import full_backward_macs, image_macs
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.plan.scores import Scores
from tinytrain.policies.common import Policy, learning_rates_by_size, scaled
from tinytrain.program.backends.registry import CHOSEN, find_backend

LAYERS = 5  # inspected layers
DENSE_LAYERS = 12  # of a transformer: those of two blocks
# Minimum of back-propagated images per pseudo-query, and the fraction of them that are support images.
IMAGES, SAMPLED = 0.6, 1 / 3
# The highest cost of one image as a fraction of a full backward pass; a larger budget buys more images.
MAX_IMAGE_COST = 0.3
# Fraction of the memory for trained parameters, so that two workers have room in 1 MB.
PARAMETERS = 0.4
RELATIVE_RATE, BIAS_RATE = 0.01, 5e-4
# Steps for so many images or fewer, and the most. Between them steps grow with the square root of the images.
STEPS, USUAL_IMAGES, MOST_STEPS = 50, 25, 80
USUAL_SHOTS = 5  # images of each class from which on learning rates are as they are


def expand_layers(network: Network) -> tuple[int, ...]:
    """Of each block the first pointwise or dense convolution with an activation; never the first layer."""
    found: dict[int, int] = {}
    for i, layer in enumerate(network.layers):
        if i and layer.row.is_dense and layer.activation and not layer.adds:
            found.setdefault(layer.block, i)
    return tuple(found.values())


def inspected(network: Network) -> tuple[int, ...]:
    """The last expand convolutions before the smallest feature maps: the middle of the network.

    Later ones have many weights and gain little in SparseUpdate's contribution analysis. Earlier ones
    cost many backward MACs. Of a transformer it is the last dense layers: queries, keys, values,
    projections and what lies between norms.
    """
    if network.attends:
        dense = [i for i, x in enumerate(network.layers) if x.row.by_input and x.cout > 1]
        return tuple(dense[-DENSE_LAYERS:])
    smallest = network.layers[-1].out_hw
    found = expand_layers(network)
    middle = [i for i in found if network.layers[i].out_hw != smallest]
    return tuple(middle[-LAYERS:] or found[-LAYERS:])


@dataclass(frozen=True)
class Choice:
    """Channels by layer above one cut, and `gain`, their fraction of all Fisher information."""

    cut: int
    channels: dict[int, tuple[int, ...]]
    gain: float


def choose(
    network: Network, scores: Scores, cut: int, macs: float, parameters: float, every_bias: bool = True
) -> Choice | None:
    """The channels of layers from `cut` on with the most Fisher information per cost, within the limits.

    `macs` limits the backward MACs of one image, `parameters` the trained parameters, with the
    biases of all layers from the cut on if `every_bias`. None if the limits do not even allow the gradient
    down to the cut.
    """
    layers = network.layers
    biases = sum(layer.cout for layer in layers[cut:]) if every_bias else 0
    left_macs = macs - sum(layer.macs for layer in layers[cut + 1 :])
    left_parameters = parameters - biases
    candidates = [i for i in scores.fisher if i >= cut]
    if left_macs <= 0 or left_parameters <= 0 or not candidates:
        return None
    rows = [(i, c) for i in candidates for c in range(layers[i].cout)]
    counts = [layers[i].cout for i in candidates]
    fisher = np.concatenate([scores.fisher[i] for i in candidates])
    mac_cost = np.repeat([layers[i].macs / layers[i].cout for i in candidates], counts)
    parameter_cost = np.repeat([layers[i].fan_in for i in candidates], counts)
    density = fisher / (mac_cost / left_macs + parameter_cost / left_parameters)
    order = np.argsort(-density, kind="stable")
    chosen: dict[int, list[int]] = {}
    gain = 0.0
    ordered = (each[order].tolist() for each in (mac_cost, parameter_cost))  # faster than numpy's numbers
    for k, mac, parameter in zip(order.tolist(), *ordered, strict=True):
        if mac > left_macs or parameter > left_parameters:
            continue
        left_macs -= mac
        left_parameters -= parameter
        gain += float(fisher[k])
        chosen.setdefault(rows[k][0], []).append(rows[k][1])
    total = sum(float(f.sum()) for f in scores.fisher.values())
    return Choice(cut, {i: tuple(c) for i, c in chosen.items()}, gain / (total or 1.0))


def select(
    network: Network, scores: Scores, macs: float, parameters: float, every_bias: bool = True
) -> Choice | None:
    """The best choice of all cuts."""
    found = [choose(network, scores, cut, macs, parameters, every_bias) for cut in scores.fisher]
    return max((c for c in found if c), key=lambda c: c.gain, default=None)


def steps_for(n_support: int) -> int:
    """Training steps for so many images: more images are learnt by heart later, and teach more."""
    return round(min(MOST_STEPS, STEPS * math.sqrt(max(1.0, n_support / USUAL_IMAGES))))


def rate_factor(shots: float) -> float:
    """Factor of the learning rates for so many images of each class: few lead further astray.

    At the full rates, one image of each class made photographs 3 points worse than the head alone has them.
    Chosen on domains that are no targets (docs/tried.md).
    """
    return math.sqrt(min(1.0, shots / USUAL_SHOTS))


def augmentation_strength(similarity: float) -> Ranges:
    """Augmentation strength for this `similarity` of images of different classes (`Scores`).

    From 0.25 on turned by up to 10 degrees, made larger or smaller by up to 1.15, and colours changed by half
    as much again as is usual; up to 0.1, and where it was not measured, as is usual. Chosen on ten domains
    that are no targets.
    """
    fraction = 0.0 if math.isnan(similarity) else min(1.0, max(0.0, (similarity - 0.1) / 0.15))
    return Ranges(colours=1 + 0.5 * fraction, turn=0.0875 * fraction, zoom=1 + 0.15 * fraction)


def recipe(network, scores, budget, task, fraction) -> Recipe:
    mean, full = budget.macs_mode == "mean", full_backward_macs(network)
    limit = budget.macs * full
    one_image = min(limit / IMAGES, MAX_IMAGE_COST * full) if mean else limit
    backend = CHOSEN[0] if budget.precision == AUTO else find_backend(budget.precision)
    parameters = PARAMETERS * budget.memory / backend.parameter_bytes
    choice = scores and select(network, scores, one_image, parameters, not backend.is_tight)
    last = len(network.layers) - 1
    if choice is None:
        updates = (Update(last, bias=True),)
    else:
        biases = choice.channels if backend.is_tight else range(choice.cut, last + 1)
        updates = tuple(Update(i, choice.channels.get(i, ()), bias=True) for i in sorted(biases))
    updates = scaled(network, updates, fraction)
    similarity = scores.similarity if scores else math.nan
    slower = rate_factor(task.n_support / task.n_way)
    sizes = learning_rates_by_size(network, updates, slower * RELATIVE_RATE)
    factors = (network.all_layers[u.layer].rate for u in updates)
    rates = tuple(
        (size, slower * factor * BIAS_RATE) for (size, _), factor in zip(sizes, factors, strict=True)
    )
    # MACs that the memory limit leaves unused go to more images.
    images = limit / max(1, image_macs(network, updates)) if mean else 2.0
    hard = min(1.0, (1 - SAMPLED) * images)
    through = min(1.0, images - hard)
    return Recipe(
        "tinytrain", updates, rates, step="both", decay=(None, 0.5),
        options=StepOptions(hard, through, single_pass=True, augmentation=augmentation_strength(similarity)),
        steps=steps_for(task.n_support),
    )  # fmt: skip


POLICY = Policy("tinytrain", recipe, "this project", inspects=inspected, fewer_macs=(0.15,))
