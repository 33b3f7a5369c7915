"""The default policy: where to cut, and which channels to train above the cut, decided by the task.

What it does differently from the published method:

* Only expand convolutions (the pointwise layer that opens a block) and the biases above the cut are
  trained. The published score divides by weights and MACs and so picks the same depthwise layers
  for practically every task.
* Every possible cut is tried: its gradient costs what it costs, the rest of the MAC and byte budget
  goes to the channels with the most Fisher information for this task, and the cut whose channels
  hold most of it wins.
* Only some images are back-propagated, as many as the MAC budget pays for: the hardest pseudo-queries,
  and for every two of them one image of the support, drawn at random, so that the prototypes move on
  purpose as well.
* Learning rates follow the size of a layer's weights. They fall to 0 over all steps where views are cached,
  because a handful of them is soon learned by heart, and stay where a larger task has new ones in every step;
  an LDA head reads the embeddings.
* A MAC budget of a quarter and more buys numbers: they take the bytes of the cache where both do not fit, and
  every step then looks at views of its own. Rates fall in the second half, and follow the task: they are
  lower where images of different classes are little alike to the backbone, as photographs of unlike things
  are, and higher where all look alike to it. So does how far such views are changed: turned, made larger or
  smaller, and half as far again in colour, but for photographs of unlike things.
"""

import math
from dataclasses import dataclass

import numpy as np

from tinytrain.episode.augment import Ranges
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import full_backward_macs, image_macs
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.plan.scores import Scores
from tinytrain.policies.common import SHARES, Policy, rates_by_size, scaled

LAYERS = 5  # inspected layers
# Back-propagated images per pseudo-query, at the least, and how many of them are of the support.
IMAGES, THROUGH = 0.6, 1 / 3
BYTES_EACH = 12  # of a trained number: value, gradient and two 16-bit moments
RELATIVE_RATE = 0.01
BIAS_RATE = 5e-4
# A cut is not deeper than that this many sets of features (the clean images and some views) fit
# this share of the memory budget in 8 bits: without a cache the frozen part runs in every step.
CACHED_SETS, CACHE_SHARE = 4, 0.6


def expand_layers(network: Network) -> tuple[int, ...]:
    """Pointwise convolutions that open a block."""
    return tuple(
        i
        for i, layer in enumerate(network.layers)
        if layer.kind == "pointwise" and layer.relu6 and network.block_start(i) == i
    )


def inspected(network: Network) -> tuple[int, ...]:
    """The last expand convolutions before the smallest planes: the middle of the network.

    Later ones have many weights and gain little by SparseUpdate's contribution analysis, earlier ones
    cost many backward MACs.
    """
    smallest = network.layers[-1].out_hw
    found = expand_layers(network)
    middle = [i for i in found if network.layers[i].out_hw != smallest]
    return tuple(middle[-LAYERS:] or found[-LAYERS:])


@dataclass(frozen=True)
class Style:
    """How a budget is used: `dearest` share of a full backward pass that an image may cost (a larger budget
    buys more images), `number_share` of the memory for trained numbers, `decay` as in `Recipe`.
    `by_task`: whether learning rates are scaled by `strength` and pseudo-queries changed as far as `reach`.
    """

    dearest: float
    number_share: float
    decay: tuple[float, float]
    by_task: bool = False


SPARING = Style(dearest=0.25, number_share=0.35, decay=(1.0, 0.0))
# For MAC budgets of this share and more. What is trained is nearly whole layers, one more of them.
GENEROUS_FROM = 0.25
GENEROUS = Style(dearest=0.3, number_share=0.55, decay=(0.5, 0.5), by_task=True)


@dataclass(frozen=True)
class Choice:
    """Channels by layer above one cut, and the share of all Fisher information that they hold."""

    cut: int
    channels: dict[int, tuple[int, ...]]
    gain: float


def choose(network: Network, scores: Scores, cut: int, macs: float, numbers: float) -> Choice | None:
    """The channels of layers from `cut` on with the most Fisher information per cost that fit.

    `macs` limits the backward MACs of one image, `numbers` the trained numbers. None if the
    gradient does not even reach the cut.
    """
    layers = network.layers
    biases = sum(layer.cout for layer in layers[cut:])
    left_macs = macs - sum(layer.macs for layer in layers[cut + 1 :])
    left_numbers = numbers - biases
    candidates = [i for i in scores.fisher if i >= cut]
    if left_macs <= 0 or left_numbers <= 0 or not candidates:
        return None
    rows = [(i, c) for i in candidates for c in range(layers[i].cout)]
    counts = [layers[i].cout for i in candidates]
    fisher = np.concatenate([scores.fisher[i] for i in candidates])
    cost_macs = np.repeat([layers[i].macs / layers[i].cout for i in candidates], counts)
    cost_numbers = np.repeat([layers[i].fan_in for i in candidates], counts)
    density = fisher / (cost_macs / left_macs + cost_numbers / left_numbers)
    chosen: dict[int, list[int]] = {}
    gain = 0.0
    for k in np.argsort(-density, kind="stable"):
        if cost_macs[k] > left_macs or cost_numbers[k] > left_numbers:
            continue
        left_macs -= cost_macs[k]
        left_numbers -= cost_numbers[k]
        gain += float(fisher[k])
        chosen.setdefault(rows[k][0], []).append(rows[k][1])
    total = sum(float(f.sum()) for f in scores.fisher.values())
    return Choice(cut, {i: tuple(c) for i, c in chosen.items()}, gain / (total or 1.0))


def select(network: Network, scores: Scores, macs: float, numbers: float, cached_set: float) -> Choice | None:
    """The best choice over all cuts whose features, in one set, take at most `cached_set` numbers.

    Over all cuts where no cut is as small as that.
    """
    small = [cut for cut in scores.fisher if network.layers[cut].in_size <= cached_set]
    found = [choose(network, scores, cut, macs, numbers) for cut in small or scores.fisher]
    return max((c for c in found if c), key=lambda c: c.gain, default=None)


def strength(similarity: float) -> float:
    """What learning rates are multiplied by where images of different classes are so similar (`Scores`).

    1 where that was not measured. To a backbone of ImageNet photographs of unlike things are 0.05 alike,
    drawn signs 0.35, edges 0.55, spectrograms 0.75. Made on ten domains that are no targets; on other
    episodes of these it gained 0.5 +-0.4 points, and 0.3 +-0.4 with a sparing plan, which does without (205
    each, trials that no command repeats).
    """
    return 1.0 if math.isnan(similarity) else min(2.25, max(0.25, 0.25 + 2.5 * similarity))


def reach(similarity: float) -> Ranges:
    """How far pseudo-queries are changed where images of different classes are so similar (`Scores`).

    From 0.25 on turned by up to 10 degrees, made larger or smaller by up to 1.15, and colours changed by half
    as much again as is usual; up to 0.1, and where it was not measured, as is usual. Made on ten domains that
    are no targets; on 162 other episodes of these it gained 1.2 +-0.7 points where every step has new views,
    and nothing to be seen where views are cached (trials that no command repeats).
    """
    share = 0.0 if math.isnan(similarity) else min(1.0, max(0.0, (similarity - 0.1) / 0.15))
    return Ranges(colours=1 + 0.5 * share, turn=0.0875 * share, zoom=1 + 0.15 * share)


def recipe(network: Network, scores: Scores | None, budget: Budget, task: TaskShape, share: float) -> Recipe:
    mean, full = budget.macs_mode == "mean", full_backward_macs(network)
    style = SPARING
    if mean and budget.macs >= GENEROUS_FROM:
        if share >= 1:
            style = GENEROUS
        # Where the bytes do not hold a generous plan, the sparing one takes its place, the whole of it first.
        share = min(1.0, share / SHARES[1])
    limit = budget.macs * full
    one_image = min(limit / IMAGES, style.dearest * full) if mean else limit
    numbers = style.number_share * budget.memory / BYTES_EACH
    cached_set = CACHE_SHARE * budget.memory / CACHED_SETS / task.n_support
    choice = scores and select(network, scores, one_image, numbers, cached_set)
    last = len(network.layers) - 1
    if choice is None:
        updates = (Update(last, bias=True),)
    else:
        updates = tuple(Update(i, choice.channels.get(i, ()), bias=True) for i in range(choice.cut, last + 1))
    updates = scaled(network, updates, share)
    similarity = scores.similarity if scores and style.by_task else math.nan
    scale = strength(similarity)
    sizes = rates_by_size(network, updates, RELATIVE_RATE)
    rates = tuple((scale * rate, scale * BIAS_RATE) for rate, _ in sizes)
    # What the byte limit leaves of the MACs goes to more images.
    images = limit / max(1, image_macs(network, updates)) if mean else 2.0
    hard = min(1.0, (1 - THROUGH) * images)
    through = min(1.0, images - hard)
    return Recipe(
        "tinytrain", updates, rates, step="both", decay=style.decay,
        options=StepOptions(hard, through, augmentation=reach(similarity)),
    )  # fmt: skip


POLICY = Policy("tinytrain", recipe, "this project", inspects=inspected)
