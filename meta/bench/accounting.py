"""Memory of a method at equal batch sizes, beside the published formula and the measured arena.

The published tables count sparse methods at batch 1 and without any saved activation, but FullTrain and
TinyTL at batch 100 with all of them. Here every method is counted by one rule at both batch sizes.
"""

from collections.abc import Sequence

from tinytrain.network.lite_residual import Module
from tinytrain.network.node import Node
from tinytrain.plan.published_costs import BYTES_PER_WEIGHT, peak_activation
from tinytrain.plan.recipe import Update

PUBLISHED_BATCH = 100


def saved_inputs(layers: Sequence[Node], updates: Sequence[Update]) -> int:
    """Values per image that the gradients of the updated weights read, only the channels they read.

    Output-channel slices of a pointwise layer read every input channel, those of a depthwise layer their own.
    """

    def read(update: Update) -> int:
        layer = layers[update.layer]
        own = update.channels if layer.row.same_channels else update.inputs
        return layer.cin if own is None else len(own)

    planes = ((read(u), layers[u.layer].in_hw) for u in updates if u.channels)
    return sum(channels * height * width for channels, (height, width) in planes)


def saved_activations(layers: Sequence[Node], updates: Sequence[Update], modules: Sequence[Module]) -> int:
    """Bytes per image that a framework keeps for the backward pass, float32.

    Inputs of the convolutions whose weights are updated; from the shallowest update on also the inputs of
    normalisation and of ReLU. Numbers beyond `layers` are those of the possible `modules` of the network.
    """
    if not updates:
        return 0
    every = (*layers, *(layer for module in modules for layer in module.layers))
    trained = {u.layer for u in updates}
    firsts = [i for i in trained if i < len(layers)] + [m.last for m in modules if m.index in trained]
    above = [*layers[min(firsts) :], *(every[i] for i in trained if i >= len(layers))]
    return 4 * (
        saved_inputs(every, updates)
        + sum(layer.out_size * (2 if layer.activation == "relu6" else 1) for layer in above)
    )


def memory_at_batch(
    layers: Sequence[Node],
    updates: Sequence[Update],
    n_numbers: int,
    batch: int,
    modules: Sequence[Module] = (),
) -> int:
    """16 bytes per trained number, and saved activations of `batch` images or the peak of inference."""
    saved = batch * saved_activations(layers, updates, modules)
    return BYTES_PER_WEIGHT * n_numbers + max(saved, peak_activation(layers))
