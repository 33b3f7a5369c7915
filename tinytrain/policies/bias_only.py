"""Trains the biases of the last layers and no weights, so that no layer input has to be saved.

Cai et al., "TinyTL: Reduce Memory, Not Parameters for Efficient On-Device Learning", NeurIPS 2020 (arXiv
2007.11622). Their TinyTL-B trains all biases; that is this policy with a MAC budget of 100 %. With a smaller
budget it trains as many of the last blocks as the backward pass can reach. At 15 % of MCUNet these are layers
30 to 41, 3,616 biases at 12.6 %.
"""

from tinytrain.network.network import Network
from tinytrain.plan.costs import full_backward_macs, image_macs
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy, at_one_rate

RATE = 2e-3


def biases_from(network: Network, first: int) -> tuple[Update, ...]:
    return tuple(Update(i, bias=True) for i in range(first, len(network.layers)))


def recipe(network, scores, budget, task, fraction) -> Recipe:
    limit, last = budget.macs * full_backward_macs(network), len(network.layers) - 1
    starts = [i for i in range(last) if network.block_start(i) == i]
    within = (i for i in starts if image_macs(network, biases_from(network, i)) <= limit)
    first = next(within, last)
    updates = biases_from(network, last - int(fraction * (last - first)))
    return at_one_rate("bias_only", updates, RATE)


POLICY = Policy("bias_only", recipe, "Cai et al., NeurIPS 2020 (TinyTL-B)", macs_of_image=True)
