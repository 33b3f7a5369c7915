"""Facts about a network, for people and for JSON."""

from tinytrain.base.units import format_bytes, format_count
from tinytrain.network.network import Network
from tinytrain.network.optional_fields import written
from tinytrain.network.quantisation import int8_obstacle
from tinytrain.plan.published_costs import full_backward_macs, peak_activation


def describe(network: Network) -> dict:
    """Facts about `network` for JSON: counts, bytes, MACs of one image, and one row per layer."""
    return {
        "name": network.name,
        "digest": network.digest,
        "preprocessing": network.input.as_dict(),
        "embedding": network.embedding_size,
        "weights": network.n_weights,
        "biases": sum(layer.cout for layer in network.layers),
        "weight_dtypes": sorted({str(weight.dtype) for weight in network.weights}),
        "has_codes": network.quantisation is not None,
        "int8_obstacle": int8_obstacle(network),
        "macs": network.macs,
        "full_backward_macs": full_backward_macs(network.layers),
        "peak_activation_bytes": peak_activation(network.layers),
        "layers": [
            {
                "index": index,
                **written(layer),
                "weights": layer.n_weights,
                "macs": layer.macs,
                "activation_bytes": 4 * (layer.in_size + layer.largest_size),
            }
            for index, layer in enumerate(network.layers)
        ],
    }


def describe_text(network: Network) -> str:
    """The facts of `describe` as a table for people."""
    facts = describe(network)
    spec = network.input
    lines = [
        f"{facts['name']}: {len(facts['layers'])} layers, {facts['weights']:,} weights"
        f" ({', '.join(facts['weight_dtypes'])}), {facts['biases']:,} biases",
        f"input {spec.words}, embedding {facts['embedding']} values",
        f"a value v enters as (v - mean) * scale: mean {_each(spec.mean)}; scale {_each(spec.scale)}"
        + ("; images are turned by 180 degrees" if spec.rotated else ""),
        f"MACs per image: {format_count(facts['macs'])} forward,"
        f" {format_count(facts['full_backward_macs'])} full backward",
        f"peak activation: {format_bytes(facts['peak_activation_bytes'])}"
        f" ({facts['peak_activation_bytes'] / 1024:g} KiB)",
        f"int8: {facts['int8_obstacle'] or 'has codes of all outputs'}",
        f"digest {facts['digest']}",
        "",
        f"{'#':>3} {'layer':<20} {'kind':<10} {'kernel':>6} {'input':>12} {'output':>12}"
        f" {'weights':>9} {'MACs':>11}",
    ]
    for row, layer in zip(facts["layers"], network.layers, strict=True):
        notes = (
            "+ input" if layer.residual else "shortcut" if layer.shortcut else "",
            layer.follows or "", "max pool" if layer.max_pool else "",
        )  # fmt: skip
        lines.append(
            f"{row['index']:>3} {row['name']:<20} {row['kind']:<10}"
            f" {row['kernel']}x{row['kernel']}/{row['stride']:<2} {_plane(row['in_hw'], row['cin']):>12}"
            f" {_plane(row['out_hw'], row['cout']):>12}"
            f" {row['weights']:>9,} {row['macs']:>11,} {' '.join(filter(None, notes))}".rstrip()
        )
    return "\n".join(lines)


def _each(numbers: tuple[float, ...]) -> str:
    """The numbers of the channels; one if all are the same."""
    return ", ".join(f"{x:g}" for x in (numbers if len(set(numbers)) > 1 else numbers[:1]))


def _plane(hw: tuple[int, int], channels: int) -> str:
    return f"{hw[0]}x{hw[1]}x{channels}"
