"""TinyTL: the network stays frozen; all biases are trained, and a lite residual module beside each block.

Cai et al., "TinyTL: Reduce Memory, Not Parameters for Efficient On-Device Learning", NeurIPS 2020 (arXiv
2007.11622). A module halves the image, so that the inputs it saves are small: see
`tinytrain.network.lite_residual`.
What differs: there is no group normalisation in the modules, ReLU6 stands for ReLU, blocks that do not
expand (one in each published network) have none, and the loss is that of prototypes.

TinyTrain's table 2 gives it 26.4, 16.4 and 17.8 M backward MACs an image on MCUNet, MobileNetV2 and
ProxylessNASNet; counted as in the other rows it is 26.5, 18.6 and 22.8 M. Its memory at batch 100, there
542, 587 and 541 MB, is 605, 692 and 572 MiB by the rule of `tinytrain.meta.bench.accounting`.

It obeys no MAC budget. Where memory does not reach for everything, the first layers stay frozen, and the
modules of the blocks that they belong to are not there.
"""

from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.plan.scores import Scores
from tinytrain.policies.bias_only import biases_from
from tinytrain.policies.common import Policy

RATE = 5e-4  # where `tinytrain bench tune` starts from


def updates_from(network: Network, first: int) -> tuple[Update, ...]:
    """Biases from layer `first` on, and the modules of the blocks that lie behind it as a whole."""
    return (*biases_from(network, first), *modules_from(network, first))


def modules_from(network: Network, first: int) -> tuple[Update, ...]:
    """All of the modules of the blocks that start at layer `first` or behind it."""
    layers = (i for m in network.possible_modules if m.first >= first for i in m.indices)
    return tuple(Update(i, tuple(range(network.all_layers[i].cout)), bias=True) for i in layers)


def recipe(network: Network, scores: Scores | None, budget: Budget, task: TaskShape, share: float) -> Recipe:
    last = len(network.layers) - 1
    updates = updates_from(network, last - int(share * last))
    return Recipe("tinytl", updates, ((RATE, RATE),) * len(updates), step="both", head="cosine")


POLICY = Policy("tinytl", recipe, "Cai et al., NeurIPS 2020 (TinyTL)", macs_limited=False)
