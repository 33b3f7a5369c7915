"""TraDy: input channels drawn anew at random in every epoch, in layers that the architecture names.

Quelennec et al., "Study of Training Dynamics for Memory-Constrained Fine-Tuning", ICLR 2026 (arXiv
2510.19675). Offline, layers are ranked by reweighted gradient norm, and those that hold 97 % of it are
kept: in the paper 27 of 42 of MCUNet, 35 of MobileNetV2, 43 of ProxylessNASNet. Here the table below, by
`tinytrain.meta.search.trady_layer_ranking` on six episodes of caltech101.
On the device, channels are drawn uniformly
among them until the budget is full, and SGD has no momentum, so no state outlives a draw.

Memory is planned before training, so every draw has as many channels of a layer as any other: the
number that a uniform draw has on average. The paper limits memory alone; here the MAC budget also says
how deep the gradient goes: as deep as every layer above still gets an eighth of its channels.

The result holds every channel that was ever drawn, which is nearly all of these layers: more bytes than any
other policy's, and as with every policy they are not in the budget.
"""

from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import full_backward_macs
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.plan.scores import Scores
from tinytrain.policies.common import Policy, all_channels, scaled

RATE = 0.25  # of plain SGD; where `tinytrain bench tune` starts from
LEAST_SHARE = 1 / 8  # of a layer's channels, the smallest share that SparseUpdate's configurations know
# By number of layers and weights, as `tinytrain.meta.search.trady_layer_ranking` prints them.
RANKED = {
    (42, 463_216): (5, 11, 13, 14, 15, *range(17, 42)),  # mcunet-5fps, 30 layers
    (51, 238_688): (11, 12, 14, 15, 17, 18, *range(20, 51)),  # mbv2-w0.35, 37
    (60, 320_816): (5, 11, 12, 14, 15, 17, 18, *range(20, 28), *range(29, 60)),  # proxyless-w0.3, 46
}


def ranked(network: Network) -> tuple[int, ...]:
    """Layers to draw from; of a network that was not ranked, all but the first convolution."""
    layers = range(1, len(network.layers))
    return RANKED.get((len(network.layers), network.n_weights), tuple(layers))


def select(network: Network, limit: float) -> tuple[Update, ...]:
    """As many channels of each layer as `limit` backward MACs of one image pay for; which ones is open."""
    macs = [layer.macs for layer in network.layers]
    for first in ranked(network):
        layers = [i for i in ranked(network) if i >= first]
        share = (limit - sum(macs[first + 1 :])) / sum(macs[i] for i in layers)
        if share >= LEAST_SHARE:
            return tuple(u for i in layers if (u := _update(network, i, min(1.0, share))))
    last = len(macs) - 1
    height, width = network.layers[last].out_hw
    return (Update(last, all_channels(network, last)[: max(1, int(limit / (height * width)))], inputs=(0,)),)


def _update(network: Network, i: int, share: float) -> Update | None:
    layer = network.layers[i]
    some = tuple(range(int(share * layer.cin)))
    if not some:
        return None
    if layer.kind == "depthwise":
        return Update(i, some)
    return Update(i, all_channels(network, i), inputs=some if len(some) < layer.cin else None)


def recipe(network: Network, scores: Scores | None, budget: Budget, task: TaskShape, share: float) -> Recipe:
    updates = scaled(network, select(network, budget.macs * full_backward_macs(network)), share)
    return Recipe(
        "trady",
        updates,
        ((RATE, RATE),) * len(updates),
        "sgd",
        "both",
        decay=(1.0, 1.0),
        head="cosine",
        options=StepOptions(resample_channels=True),
    )


POLICY = Policy("trady", recipe, "Quelennec et al., ICLR 2026", macs_of_image=True)
