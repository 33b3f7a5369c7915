"""Baselines: no training (with two heads), full fine-tuning, the last layer only."""

from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.plan.scores import Scores
from tinytrain.policies.common import Policy, all_channels, learning_rates_by_size, scaled


def _none(
    network: Network, scores: Scores | None, budget: Budget, task: TaskShape, fraction: float
) -> Recipe:
    return Recipe("none", (), (), steps=0, step="constant", head="cosine")


def _none_lda(
    network: Network, scores: Scores | None, budget: Budget, task: TaskShape, fraction: float
) -> Recipe:
    return Recipe("none_lda", (), (), steps=0, step="constant", head="lda")


def _full(
    network: Network, scores: Scores | None, budget: Budget, task: TaskShape, fraction: float
) -> Recipe:
    updates = tuple(Update(i, all_channels(network, i), bias=True) for i in range(len(network.layers)))
    return Recipe("full", updates, ((3e-4, 3e-4),) * len(updates), step="both", head="cosine")


def _last_layer(network: Network, scores, budget: Budget, task: TaskShape, fraction: float) -> Recipe:
    last = len(network.layers) - 1
    updates = scaled(network, (Update(last, all_channels(network, last)),), fraction)
    return Recipe("last_layer", updates, learning_rates_by_size(network, updates), step="both", head="cosine")


NONE = Policy(
    "none",
    _none,
    "prototypes of the unadapted network (Snell et al., NeurIPS 2017)",
    macs_limited=False,
    trains=False,
)
NONE_LDA = Policy(
    "none_lda",
    _none_lda,
    "shrinkage LDA on the unadapted network (Ledoit and Wolf, 2004)",
    macs_limited=False,
    trains=False,
)
FULL = Policy("full", _full, "fine-tuning of every weight and bias", shrinks=False, macs_limited=False)
LAST_LAYER = Policy(
    "last_layer",
    _last_layer,
    "fine-tuning of the last convolution (TinyTrain's LastLayer)",
    macs_limited=False,
)
