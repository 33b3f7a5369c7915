"""What networks and updates cost in the accounting of the published tables; `describe` for people.

Memory: 16 bytes per updated weight (weight, gradient and two Adam moments in float32) plus the peak
activation of inference at batch 1. Backward MACs of one picture: dW of what is updated plus dX of every
layer after the shallowest updated one; the forward pass is not counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tinytrain.network import Layer, Network
from tinytrain.units import format_bytes, format_count

BYTES_PER_WEIGHT = 16


def with_head(layers: Sequence[Layer], cout: int) -> tuple[Layer, ...]:
    """`layers` and the 1x1 convolution to `cout` channels that published tables count but nobody published.

    For accounting only (there are no weights): 448 for mbv2-w0.35, 384 for proxyless-w0.3.
    """
    last = layers[-1]
    head = Layer(
        "head", "pointwise", last.cout, cout, 1, 1, last.out_hw, last.out_hw, relu6=True, block=last.block + 1
    )
    return (*layers, head)


def peak_activation(layers: Sequence[Layer]) -> int:
    """Bytes of the largest input plus output, float32, batch 1, not counting depthwise layers (in place)."""
    return max(
        (4 * (layer.in_size + layer.out_size) for layer in layers if layer.kind != "depthwise"), default=0
    )


def updated_weights(layers: Sequence[Layer], shares: Mapping[int, float]) -> int:
    """Weights in the updated `shares` of channels (layer index -> share above 0, at most 1).

    Input channels as SparseUpdate counts them, whole channels only; the numbers are the same for
    output channels when the share leaves whole channels.
    """
    return sum(
        int(layers[i].cin * share) * (layers[i].n_weights // layers[i].cin) for i, share in shares.items()
    )


def paper_memory(layers: Sequence[Layer], n_updated: int) -> int:
    """Bytes of updating `n_updated` weights as the published tables count them."""
    return BYTES_PER_WEIGHT * n_updated + peak_activation(layers)


def full_memory(layers: Sequence[Layer], batch: int = 100) -> int:
    """Bytes of updating everything as the published tables count them, their batch being 100.

    Stored for each picture: the inputs of convolutions, batch normalisations and activations. Updated
    are weights and the two numbers per channel of each batch normalisation.
    """
    stored = sum(layer.in_size + layer.out_size * (1 + layer.relu6) for layer in layers)
    updated = sum(layer.n_weights + 2 * layer.cout for layer in layers)
    return 4 * batch * stored + BYTES_PER_WEIGHT * updated


def full_backward_macs(layers: Sequence[Layer]) -> int:
    """Backward MACs of one picture when everything is updated (the first layer's dX is charged too)."""
    return 2 * sum(layer.macs for layer in layers)


def backward_macs(layers: Sequence[Layer], shares: Mapping[int, float]) -> int:
    """Backward MACs of one picture when the `shares` (layer index -> share of channels) are updated."""
    if not shares:
        return 0
    weight_gradients = sum(round(share * layers[i].macs) for i, share in shares.items())
    return weight_gradients + sum(layer.macs for layer in layers[min(shares) + 1 :])


def describe(network: Network) -> dict:
    """Facts about `network` for JSON: counts, bytes, MACs of one picture, and one row per layer."""
    return {
        "name": network.name,
        "digest": network.digest,
        "preprocessing": asdict(network.preprocessing),
        "embedding": network.embedding_size,
        "weights": network.n_weights,
        "biases": sum(layer.cout for layer in network.layers),
        "weight_dtypes": sorted({str(weight.dtype) for weight in network.weights}),
        "macs": network.macs,
        "full_backward_macs": full_backward_macs(network.layers),
        "peak_activation_bytes": peak_activation(network.layers),
        "layers": [
            {
                "index": index,
                **asdict(layer),
                "weights": layer.n_weights,
                "macs": layer.macs,
                "activation_bytes": 4 * (layer.in_size + layer.out_size),
            }
            for index, layer in enumerate(network.layers)
        ],
    }


def describe_text(network: Network) -> str:
    """The facts of `describe` as a table for people."""
    facts = describe(network)
    size = facts["preprocessing"]["size"]
    lines = [
        f"{facts['name']}: {len(facts['layers'])} layers, {facts['weights']:,} weights"
        f" ({', '.join(facts['weight_dtypes'])}), {facts['biases']:,} biases",
        f"input {size} x {size} x 3, embedding {facts['embedding']} values",
        f"MACs per picture: {format_count(facts['macs'])} forward,"
        f" {format_count(facts['full_backward_macs'])} full backward",
        f"peak activation: {format_bytes(facts['peak_activation_bytes'])}"
        f" ({facts['peak_activation_bytes'] / 1024:g} KiB)",
        f"digest {facts['digest']}",
        "",
        f"{'#':>3} {'layer':<20} {'kind':<10} {'kernel':>6} {'input':>12} {'output':>12}"
        f" {'weights':>9} {'MACs':>11}",
    ]
    for row in facts["layers"]:
        notes = [note for note, wanted in (("relu6", row["relu6"]), ("+ input", row["residual"])) if wanted]
        lines.append(
            f"{row['index']:>3} {row['name']:<20} {row['kind']:<10}"
            f" {row['kernel']}x{row['kernel']}/{row['stride']:<2} {_plane(row['in_hw'], row['cin']):>12}"
            f" {_plane(row['out_hw'], row['cout']):>12}"
            f" {row['weights']:>9,} {row['macs']:>11,} {' '.join(notes)}".rstrip()
        )
    return "\n".join(lines)


def _plane(hw: tuple[int, int], channels: int) -> str:
    return f"{hw[0]}x{hw[1]}x{channels}"
