"""LoRA: trains pairs of dense layers of low rank beside those of a transformer, and nothing else.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022 (arXiv 2106.09685). Every dense
layer has a pair, whose rank is that of `tinytrain.network.lite_residual`; the first of a pair is drawn, the
second starts at zero. Differences to the paper: both have a bias, the result is not scaled, and the pairs are
not folded into the layers, so that a delta can be taken back. The loss is that of prototypes.

A network without attention has lite residual modules in their place: those of `tinytl`, without the biases.

The policy has no MAC limit. If memory is too small for all pairs, the first layers have none; without any
the last bias is trained.
"""

from tinytrain.network.network import Network
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy, at_one_rate
from tinytrain.policies.tinytl import modules_from

RATE = 2e-3  # not tuned


def updates_from(network: Network, fraction: float) -> tuple[Update, ...]:
    """This fraction of the modules, the last ones; the last bias if that is none."""
    starts = [module.first for module in network.possible_modules]
    count = round(fraction * len(starts))
    if not count:
        return (Update(len(network.layers) - 1, bias=True),)
    return modules_from(network, starts[-count])


def recipe(network, scores, budget, task, fraction) -> Recipe:
    return at_one_rate("lora", updates_from(network, fraction), RATE)


POLICY = Policy("lora", recipe, "Hu et al., ICLR 2022 (LoRA)", macs_limited=False)
