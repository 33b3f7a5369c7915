"""Ablations of the published plan: the same layers and numbers of channels, chosen by other criteria.

Kwon et al., ICML 2024, figure 4 of the poster, MCUNet, average accuracy of nine data sets in per cent at
303 / 320 / 355 kB: Fisher information 68.1 / 69.4 / 70.3, L2 norm 67.0 / 68.3 / 69.7, random choice
66.7 / 67.7 / 69.0. `tinytrain_published` is the arm with Fisher information.
"""

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.network.network import Network
from tinytrain.plan.recipe import Recipe
from tinytrain.plan.scores import Scores
from tinytrain.policies import tinytrain_published
from tinytrain.policies.common import Policy, norms

Order = Callable[[Network, Scores, int], np.ndarray]


def by_norm(network: Network, scores: Scores, layer: int) -> np.ndarray:
    """Output channels of a layer, largest L2 norm of weights first."""
    return np.argsort(-norms(network, layer, "outputs"), kind="stable")


def at_random(network: Network, scores: Scores, layer: int) -> np.ndarray:
    """Output channels of a layer in a random order, which depends only on the task."""
    task = zlib.crc32(b"".join(scores.fisher[i].tobytes() for i in sorted(scores.fisher)))
    return rng_for(task, "channels at random", layer).permutation(network.layers[layer].cout)


def ablation(name: str, order: Order) -> Policy:
    """`tinytrain_published` with the first channels in `order` instead of by Fisher information."""

    def recipe(network, scores, budget, task, fraction) -> Recipe:
        published = tinytrain_published.recipe(network, scores, budget, task, fraction)
        updates = tuple(
            replace(u, channels=tuple(int(c) for c in order(network, scores, u.layer)[: len(u.channels)]))
            for u in published.updates
        )
        return replace(published, policy=name, updates=updates)

    return replace(
        tinytrain_published.POLICY, name=name, recipe=recipe, citation="ablation of Kwon et al., ICML 2024"
    )


L2 = ablation("l2", by_norm)
RANDOM = ablation("random", at_random)
