"""Facts about a network, for people and for JSON."""

from tinytrain.base.units import format_bytes, format_count
from tinytrain.network.network import Network
from tinytrain.network.quantisation import int8_obstacle
from tinytrain.network.topology import rows_of
from tinytrain.plan.published_costs import full_backward_macs, peak_activation


def describe(network: Network) -> dict:
    """Facts about `network` for JSON: counts, bytes, MACs of one image, and one row per layer."""
    named = {node.name: node for node in network.nodes}
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
                **row,
                "weights": layer.n_weights,
                "macs": layer.macs,
                "activation_bytes": 4 * (layer.in_size + layer.out_size),
            }
            for index, row in enumerate(rows_of(network.nodes))
            for layer in (named[row["name"]],)
        ],
    }


def describe_text(network: Network) -> str:
    """The facts of `describe` as a table for people."""
    facts = describe(network)
    spec = network.input
    lines = [
        f"{facts['name']}: {len(network.layers)} layers, {facts['weights']:,} weights"
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
    for i, node in enumerate(network.nodes):
        kernel = f"{node.kernel[0]}x{node.kernel[1]}/{node.stride[0]}"
        notes = *(f"+ {name}" for name in node.inputs[1:]), node.activation or ""
        lines.append(
            f"{i:>3} {node.name:<20} {node.op:<10} {kernel:<6}"
            f" {_plane(node.in_hw, node.cin):>12} {_plane(node.out_hw, node.cout):>12}"
            f" {node.n_weights:>9,} {node.macs:>11,} {' '.join(filter(None, notes))}".rstrip()
        )
    return "\n".join(lines)


def _each(numbers: tuple[float, ...]) -> str:
    """The numbers of the channels; one if all are the same."""
    return ", ".join(f"{x:g}" for x in (numbers if len(set(numbers)) > 1 else numbers[:1]))


def _plane(hw: tuple[int, int], channels: int) -> str:
    return f"{hw[0]}x{hw[1]}x{channels}"
