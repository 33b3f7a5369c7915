"""What networks and updates cost in the accounting of the published tables; `describe` for people.

Memory: 16 bytes per updated weight (weight, gradient and two Adam moments in float32) plus the peak
activation of inference at batch 1. Backward MACs of one image: dW of what is updated plus dX of every
layer after the shallowest updated one; the forward pass is not counted.
"""

from collections.abc import Mapping, Sequence

from tinytrain.network.network import Network
from tinytrain.network.node import Node

BYTES_PER_WEIGHT = 16
# Output channels of the 1x1 convolution that is counted in published tables but is not in the checkpoints.
PUBLISHED_HEADS = {"mbv2-w0.35": 448, "proxyless-w0.3": 384}


def table_rows(network: Network) -> list[dict]:
    """Costs of training all layers and of training the last layer, counted as in published tables."""
    layers = network.layers
    if network.name in PUBLISHED_HEADS:
        layers = with_head(layers, PUBLISHED_HEADS[network.name])
    rows = []
    for name, first in (("full", 0), ("last_layer", len(layers) - 1)):
        shares = dict.fromkeys(range(first, len(layers)), 1.0)
        # The published figure of full training also charges the first layer's dX.
        macs = full_backward_macs(layers) if name == "full" else backward_macs(layers, shares)
        weights = updated_weights(layers, shares)
        paper = paper_memory(layers, weights)
        rows.append({"method": name, "weights": weights, "paper": paper, "backward_macs": macs})
    return rows


def with_head(layers: Sequence[Node], cout: int) -> tuple[Node, ...]:
    """`layers` and the 1x1 convolution to `cout` channels that published tables count but nobody published.

    For accounting only: there are no weights.
    """
    last = layers[-1]
    size = last.cout, cout, 1, 1, last.out_hw, last.out_hw
    return (*layers, Node("head", "pointwise", *size, "relu6", last.block + 1))


def peak_activation(layers: Sequence[Node]) -> int:
    """Bytes of the largest input plus output, float32, batch 1, not counting depthwise layers (in place)."""
    sizes = (4 * (layer.in_size + layer.out_size) for layer in layers if not layer.row.same_channels)
    return max(sizes, default=0)


def updated_weights(layers: Sequence[Node], shares: Mapping[int, float]) -> int:
    """Weights in the updated `shares` of channels (layer index -> share above 0, at most 1).

    Input channels as SparseUpdate counts them, whole channels only; the numbers are the same for
    output channels when the share leaves whole channels.
    """
    return sum(
        int(layers[i].cin * share) * (layers[i].n_weights // layers[i].cin) for i, share in shares.items()
    )


def paper_memory(layers: Sequence[Node], n_updated: int) -> int:
    """Bytes of updating `n_updated` weights as the published tables count them."""
    return BYTES_PER_WEIGHT * n_updated + peak_activation(layers)


def full_backward_macs(layers: Sequence[Node]) -> int:
    """Backward MACs of one image when everything is updated (the first layer's dX is charged too)."""
    return 2 * sum(layer.macs for layer in layers)


def backward_macs(layers: Sequence[Node], shares: Mapping[int, float]) -> int:
    """Backward MACs of one image when the `shares` (layer index -> share of channels) are updated."""
    if not shares:
        return 0
    weight_gradients = sum(round(share * layers[i].macs) for i, share in shares.items())
    return weight_gradients + sum(layer.macs for layer in layers[min(shares) + 1 :])
