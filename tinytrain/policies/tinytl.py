"""TinyTL: trains all biases, and a lite residual module beside each block; the weights stay frozen.

Cai et al., "TinyTL: Reduce Memory, Not Parameters for Efficient On-Device Learning", NeurIPS 2020 (arXiv
2007.11622). A module halves the resolution, so that its saved inputs are small: see
`tinytrain.network.lite_residual`. Differences to the paper: the modules have no group normalisation and use
ReLU6 instead of ReLU; blocks that do not expand (one in each published network) have no module; the loss is
that of prototypes.

TinyTrain's table 2 states 26.4, 16.4 and 17.8 M backward MACs per image for MCUNet, MobileNetV2 and
ProxylessNASNet; counted like the other rows it is 26.5, 18.6 and 22.8 M. The table's memory at batch 100 is
542, 587 and 541 MB; by the rule of `tinytrain.meta.bench.accounting` it is 605, 692 and 572 MiB.

The policy has no MAC limit. If memory is too small for all parameters, the first layers stay frozen and their
blocks have no modules.

AdapterDrop leaves out the modules of the first blocks, so that no gradient goes there: Rücklé et al.,
"AdapterDrop: On the Efficiency of Adapters in Transformers", EMNLP 2021 (arXiv 2010.11918). TinyTrain's table
has it at 25, 50 and 75 % (MCUNet, means of nine sets: 63.4, 61.8, 56.0; TinyTL 66.1) without saying what its
adapters are. They are taken to be these modules. Biases before the first one that stays are frozen, too.
"""

from tinytrain.network.network import Network
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.bias_only import biases_from
from tinytrain.policies.common import Policy, at_one_rate

RATE = 5e-4  # the start of `tinytrain bench tune`


def updates_from(network: Network, first: int) -> tuple[Update, ...]:
    """Biases from layer `first` on, and the modules of the blocks that start there or later."""
    return (*biases_from(network, first), *modules_from(network, first))


def modules_from(network: Network, first: int) -> tuple[Update, ...]:
    """All parameters of the modules of the blocks that start at layer `first` or later."""
    layers = (i for m in network.possible_modules if m.first >= first for i in m.indices)
    return tuple(Update(i, tuple(range(network.all_layers[i].cout)), bias=True) for i in layers)


def without(percent: int, name: str, citation: str) -> Policy:
    """TinyTL without so many per cent of its modules, those of the first blocks."""

    def recipe(network, scores, budget, task, fraction) -> Recipe:
        starts, last = [m.first for m in network.possible_modules], len(network.layers) - 1
        first = [*starts, last][round(len(starts) * percent / 100)] if percent else 0
        updates = updates_from(network, last - int(fraction * (last - first)))
        return at_one_rate(name, updates, RATE)

    return Policy(name, recipe, citation, macs_limited=False)


POLICY = without(0, "tinytl", "Cai et al., NeurIPS 2020 (TinyTL)")
ADAPTERDROP = tuple(
    without(percent, f"adapterdrop_{percent}", "Rücklé et al., EMNLP 2021 (AdapterDrop)")
    for percent in (25, 50, 75)
)
