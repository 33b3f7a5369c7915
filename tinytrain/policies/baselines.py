"""Baselines: no training (with two heads), all weights (also by unlabelled queries), the last layer only."""

from dataclasses import replace

from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.policies.common import Policy, all_channels, at_one_rate, learning_rates_by_size, scaled


def untrained(name: str, head: str, citation: str) -> Policy:
    """The network as it is, with that `head`."""

    def recipe(network, scores, budget, task, fraction) -> Recipe:
        return Recipe(name, (), (), steps=0, step="constant", head=head)

    return Policy(name, recipe, citation, macs_limited=False, trains=False)


def _full(network, scores, budget, task, fraction) -> Recipe:
    updates = tuple(Update(i, all_channels(network, i), bias=True) for i in range(len(network.layers)))
    return at_one_rate("full", updates, 3e-4)


def _transductive(network, scores, budget, task, fraction) -> Recipe:
    """As `_full`, and also for confident answers to the queries: no other policy looks at these in training.

    The loss is the cross-entropy of the labelled images plus the mean Shannon entropy of the predictions for
    the queries, with equal weights. It is a baseline of TinyTrain's main table (averages over nine sets in
    per cent: MCUNet 61.5, MobileNetV2 56.5, ProxylessNASNet 59.4).
    """
    full = _full(network, scores, budget, task, fraction)
    return replace(full, policy="transductive", options=StepOptions(entropy=1.0))


def _last_layer(network, scores, budget, task, fraction) -> Recipe:
    last = len(network.layers) - 1
    updates = scaled(network, (Update(last, all_channels(network, last)),), fraction)
    return Recipe("last_layer", updates, learning_rates_by_size(network, updates), step="both", head="cosine")


NONE = untrained("none", "cosine", "prototypes of the unadapted network (Snell et al., NeurIPS 2017)")
NONE_LDA = untrained("none_lda", "lda", "shrinkage LDA on the unadapted network (Ledoit and Wolf, 2004)")
FULL = Policy("full", _full, "fine-tuning of every weight and bias", shrinks=False, macs_limited=False)
TRANSDUCTIVE = Policy(
    "transductive",
    _transductive,
    "Dhillon et al., ICLR 2020",  # "A Baseline for Few-Shot Image Classification", arXiv 1909.02729
    shrinks=False,
    macs_limited=False,
)
LAST_LAYER = Policy(
    "last_layer",
    _last_layer,
    "fine-tuning of the last convolution (TinyTrain's LastLayer)",
    macs_limited=False,
)
