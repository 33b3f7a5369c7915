"""SparseUpdate: some input channels of some layers and the last biases, chosen once for all tasks.

Lin et al., "On-Device Training Under 256KB Memory", NeurIPS 2022 (arXiv 2206.15472). The authors
searched five sizes for each of three networks offline (contribution analysis, then evolution) and
published the 15 configurations with their code. `extra_memory` reproduces the sizes of all of them; the
100 kB one of MCUNet also gives the SparseUpdate row of TinyTrain's Table 2 (1.43 MB, 11.9 M MACs).

The authors train int8 weights by SGD with their gradient scaling. Here weights are float32 and the optimizer
is that of the other policies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.network.network import Network
from tinytrain.network.node import Node
from tinytrain.plan.costs import n_trained
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy, at_one_rate, norms, scaled, selectable, update_of

RATE = 5e-4


@dataclass(frozen=True)
class Configuration:
    """Trains the biases of the last `biases` layers, and by layer the fraction `shares` of input channels."""

    biases: int
    shares: dict[int, float]


# By number of layers and weights, smallest first: nominally 50, 75, 100, 125 and 150 kB.
PUBLISHED = {
    (42, 463_216): (  # mcunet-5fps
        Configuration(20, {24: 1 / 4, 27: 1 / 2, 30: 1 / 2}),
        Configuration(21, {21: 1, 24: 1, 27: 1 / 2, 30: 1}),
        Configuration(22, {21: 1, 24: 1, 27: 1, 30: 1, 36: 1 / 8, 39: 1 / 4}),
        Configuration(24, {21: 1 / 4, 24: 1, 27: 1, 30: 1, 33: 1 / 2, 39: 1 / 2}),
        Configuration(23, {21: 1, 24: 1, 27: 1, 30: 1, 36: 1, 39: 1 / 2}),
    ),
    (51, 238_688): (  # mbv2-w0.35
        Configuration(16, {36: 1, 39: 1, 41: 1 / 4, 42: 1 / 8, 45: 1 / 8, 48: 1 / 8, 49: 1 / 8}),
        Configuration(20, {32: 1 / 8, 33: 1 / 2, 36: 1 / 2, 39: 1, 41: 1 / 4, 42: 1 / 8, 45: 1 / 8, 48: 1}),
        Configuration(25, {27: 1, 30: 1, 33: 1, 36: 1, 39: 1, 42: 1 / 8, 45: 1 / 2, 48: 1}),
        Configuration(31, {27: 1, 30: 1, 33: 1, 36: 1, 39: 1, 42: 1 / 2, 45: 1, 48: 1}),
        Configuration(34, dict.fromkeys(range(27, 49, 3), 1)),
    ),
    (60, 320_816): (  # proxyless-w0.3
        Configuration(21, {39: 1 / 4, 42: 1, 45: 1, 51: 1 / 8, 54: 1 / 4, 57: 1 / 4}),
        Configuration(28, {33: 1 / 2, 36: 1 / 4, 39: 1, 42: 1, 45: 1, 51: 1 / 2, 54: 1 / 4, 57: 1 / 2}),
        Configuration(25, {36: 1, 39: 1 / 2, 42: 1, 45: 1, 48: 1 / 4, 51: 1 / 2, 54: 1, 57: 1}),
        Configuration(32, {36: 1, 39: 1, 42: 1, 45: 1, 48: 1 / 2, 51: 1, 54: 1, 57: 1}),
        Configuration(45, dict.fromkeys(range(36, 58, 3), 1)),
    ),
}
KILOBYTES = (50, 75, 100, 125, 150)
DEFAULT = 100


def published(network: Network) -> tuple[Configuration, ...]:
    """The configurations published for `network`, smallest first. Raises UsageError for another network."""
    found = PUBLISHED.get((len(network.layers), network.n_weights))
    if found is None:
        raise UsageError(
            "unsupported",
            f"SparseUpdate has no published configuration for {network.name} ({len(network.layers)} layers, "
            f"{network.n_weights:,} weights); take mcunet-5fps, mbv2-w0.35 or proxyless-w0.3",
        )
    return found


def extra_memory(layers: Sequence[Node], configuration: Configuration) -> float:
    """Memory of training beside inference in kB (1,024 bytes), by the authors' formula.

    8 bits per weight, saved input and classifier input, 32 per bias, 1 per output that the gradient passes;
    batch 1, no momentum.
    """
    bits = 8 * layers[-1].cout
    for layer in layers[len(layers) - configuration.biases :]:
        bits += layer.out_size + 32 * layer.cout
    for i, fraction in configuration.shares.items():
        kept, layer = int(layers[i].cin * fraction), layers[i]
        bits += 8 * kept * (layer.in_hw[0] * layer.in_hw[1] + layer.n_weights // layer.cin)
    return bits / 8 / 1024


def updates_of(network: Network, configuration: Configuration) -> tuple[Update, ...]:
    """The updates of a configuration: in each layer the input channels with the largest L2 norm."""
    first = len(network.layers) - configuration.biases
    return tuple(
        _update(network, i, configuration.shares.get(i, 0.0), i >= first)
        for i in range(len(network.layers))
        if i >= first or configuration.shares.get(i)
    )


def _update(network: Network, i: int, fraction: float, bias: bool) -> Update:
    kept = int(selectable(network, i) * fraction)
    best = np.argsort(-norms(network, i), kind="stable")[:kept]
    return update_of(network, i, tuple(best.tolist()), bias) if kept else Update(i, bias=bias)


def policy(name: str, find: Callable[[Network], tuple[Configuration, ...]], size: int = -1) -> Policy:
    """A policy that trains configuration `size` of ``find(network)``, which is sorted smallest first.

    If the memory budget holds only a fraction of its parameters, it trains the largest configuration within
    this fraction; if there is none, a part of the smallest one.
    """

    def recipe(network, scores, budget, task, fraction) -> Recipe:
        choices = [updates_of(network, c) for c in find(network)]
        sizes = [n_trained(network, updates) for updates in choices]
        limit = fraction * sizes[size]
        fitting = [updates for updates, n in zip(choices, sizes, strict=True) if n <= limit]
        updates = fitting[-1] if fitting else scaled(network, choices[0], limit / sizes[0])
        return at_one_rate(name, updates, RATE)

    return Policy(name, recipe, "Lin et al., NeurIPS 2022", macs_limited=False)


ROWS = tuple(
    policy("sparse_update" if kb == DEFAULT else f"sparse_update_{kb}kb", published, size)
    for size, kb in enumerate(KILOBYTES)
)
