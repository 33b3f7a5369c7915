"""TinyTrain as published: score P / (W * M), greedy choice of layers, channels with most Fisher information.

Kwon et al., "TinyTrain: Resource-Aware Task-Adaptive Sparse Training of DNNs at the Data-Scarce
Edge", ICML 2024 (arXiv 2307.09988). The paper gives the score and the order of layers; `select` follows this
order greedily.
"""

from tinytrain.network.network import Network
from tinytrain.plan.costs import full_backward_macs
from tinytrain.plan.published_costs import peak_activation
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.plan.scores import Scores, last_blocks
from tinytrain.policies.common import Policy, at_one_rate, scaled

MEMORY = 2**20  # the paper's formula and limit: 16 bytes per updated weight + peak activation, 1 MiB
LEAST_FRACTION = 0.125  # a layer is skipped if a smaller fraction of its channels fits
RATE = 1e-2  # not published; suits the depthwise layers that are chosen, not tuned further here
BLOCKS = 6


def inspected(network: Network) -> tuple[int, ...]:
    return last_blocks(network, BLOCKS)


def layer_scores(network: Network, scores: Scores) -> dict[int, float]:
    """``s_i = P_i / ((|W_i| / max |W|) * (M_i / max M))``, maxima over all layers of the network."""
    most_weights = max(layer.n_weights for layer in network.layers)
    most_macs = max(layer.macs for layer in network.layers)
    return {
        i: scores.potential(i)
        / ((network.layers[i].n_weights / most_weights) * (network.layers[i].macs / most_macs))
        for i in scores.fisher
    }


def select(network: Network, scores: Scores, memory: int, macs: float) -> tuple[Update, ...]:
    """Layers by falling score, channels by falling Fisher information, while both limits hold.

    `memory` in bytes by the paper's formula, `macs` in backward MACs of one image.
    """
    ranked = layer_scores(network, scores)
    used_memory, used_macs, first = float(peak_activation(network.layers)), 0.0, len(network.layers)
    updates = []
    for i in sorted(ranked, key=ranked.get, reverse=True):
        layer = network.layers[i]
        crossed = sum(network.layers[k].macs for k in range(i + 1, min(first + 1, len(network.layers))))
        fraction = min(
            1.0,
            (macs - used_macs - crossed) / layer.macs,
            (memory - used_memory) / (16 * layer.n_weights),
        )
        count = int(max(fraction, 0.0) * layer.cout)
        if count < max(1, LEAST_FRACTION * layer.cout):
            continue
        best = (-scores.fisher[i]).argsort(kind="stable")[:count]
        updates.append(Update(i, tuple(int(c) for c in best)))
        used_macs += crossed + layer.macs * count / layer.cout
        used_memory += 16 * layer.fan_in * count
        first = min(first, i)
    return tuple(sorted(updates, key=lambda u: u.layer))


def recipe(network, scores, budget, task, fraction) -> Recipe:
    updates = select(network, scores, MEMORY, budget.macs * full_backward_macs(network))
    if fraction <= 0:  # the least possible: one channel of the last layer
        last = len(network.layers) - 1
        best = int(scores.fisher[last].argmax()) if last in scores.fisher else 0
        updates = (Update(last, (best,)),)
    updates = scaled(network, updates, fraction)
    return at_one_rate("tinytrain_published", updates, RATE)


POLICY = Policy(
    "tinytrain_published", recipe, "Kwon et al., ICML 2024", inspects=inspected, macs_of_image=True
)
