"""TraDy: trains random input channels, resampled in every epoch, in layers that the architecture determines.

Quelennec et al., "Study of Training Dynamics for Memory-Constrained Fine-Tuning", ICLR 2026 (arXiv
2510.19675). Offline, layers are ranked by reweighted gradient norm, and those that hold 97 % of it are
kept: in the paper 27 of 42 of MCUNet, 35 of MobileNetV2, 43 of ProxylessNASNet. The table below was made so
on six episodes of caltech101 (`tinytrain.meta.search.trady_layer_ranking` of commit 9bf1837). On the device,
channels are sampled uniformly from these layers until the budget is full. SGD has no momentum, so no state
outlives a sample.

Memory is planned before training, so every sample has the same number of channels per layer: the mean of a
uniform sample. The paper limits only memory. Here the MAC budget limits the depth of the gradient: every
layer above must get at least an eighth of its channels.

The result contains every channel that was ever sampled, which is nearly all of these layers. So it is larger
than that of any other policy. As with every policy, the budget does not count the result.
"""

from tinytrain.network.network import Network
from tinytrain.plan.costs import full_backward_macs
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.policies.common import Policy, all_channels, at_one_rate, scaled, selectable, update_of

RATE = 0.25  # for plain SGD; the start of `tinytrain bench tune`
LEAST_FRACTION = 1 / 8  # of a layer's channels: the smallest fraction in SparseUpdate's configurations
# By (number of layers, number of weights).
RANKED = {
    (42, 463_216): (5, 11, 13, 14, 15, *range(17, 42)),  # mcunet-5fps, 30 layers
    (51, 238_688): (11, 12, 14, 15, 17, 18, *range(20, 51)),  # mbv2-w0.35, 37
    (60, 320_816): (5, 11, 12, 14, 15, 17, 18, *range(20, 28), *range(29, 60)),  # proxyless-w0.3, 46
}


def ranked(network: Network) -> tuple[int, ...]:
    """Layers to sample from; for a network without a ranking, all but the first convolution."""
    layers = range(1, len(network.layers))
    return RANKED.get((len(network.layers), network.n_weights), tuple(layers))


def select(network: Network, limit: float) -> tuple[Update, ...]:
    """Updates with as many channels per layer as `limit` backward MACs of one image allow.

    Only their number matters; the channels are sampled later.
    """
    macs = [layer.macs for layer in network.layers]
    for first in ranked(network):
        layers = [i for i in ranked(network) if i >= first]
        fraction = (limit - sum(macs[first + 1 :])) / sum(macs[i] for i in layers)
        if fraction >= LEAST_FRACTION:
            return tuple(u for i in layers if (u := _update(network, i, min(1.0, fraction))))
    last = len(macs) - 1
    layer = network.layers[last]
    if not layer.row.by_input:
        return (Update(last, (0,)),)
    positions = layer.out_hw[0] * layer.out_hw[1]
    return (Update(last, all_channels(network, last)[: max(1, int(limit / positions))], inputs=(0,)),)


def _update(network: Network, i: int, fraction: float) -> Update | None:
    some = tuple(range(int(fraction * selectable(network, i))))
    return update_of(network, i, some) if some else None


def recipe(network, scores, budget, task, fraction) -> Recipe:
    updates = scaled(network, select(network, budget.macs * full_backward_macs(network)), fraction)
    options = StepOptions(resample_channels=True)
    return at_one_rate("trady", updates, RATE, optimizer="sgd", decay=(1.0, 1.0), options=options)


POLICY = Policy("trady", recipe, "Quelennec et al., ICLR 2026", macs_of_image=True)
