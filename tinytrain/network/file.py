"""Networks in files: int8 weights, scales, biases and topology in the safetensors layout.

Tensors are ``<layer>.weight`` (int8 or float32), ``<layer>.scale`` (float32, with int8 weights only)
and ``<layer>.bias`` (float32); metadata holds kind, schema, name, topology (JSON), digest and, if the network
has any, the codes of its layers' outputs (JSON).
"""

import json
import os
from dataclasses import fields

from tinytrain.base.errors import InputError
from tinytrain.base.files import write_bytes
from tinytrain.base.safetensors import decode, encode, parse_json, read_file
from tinytrain.network.chain import fitting, nodes_of
from tinytrain.network.codes_json import parsed_codes, written_codes
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node
from tinytrain.network.optional_fields import optional_names, used
from tinytrain.network.topology import OPTIONAL, rows_of
from tinytrain.network.validation import check_network, check_nodes, check_rest

__all__ = [
    "decode",
    "decode_network",
    "encode",
    "encode_network",
    "load_network",
    "read_file",
    "save_network",
]

KIND = "tinytrain-network"
# The second only for inputs that the first cannot say, the third only for optional fields and for dense
# convolutions behind the first layer, the fourth only for chains with codes, the fifth only for what is no
# chain.
SCHEMAS = ("1", "2", "3", "4", "5")
WITH_OPTIONAL = ("3", "4", "5")
WITH_CODES, GRAPH = "4", "5"
PLAIN = ("size", "mean", "scale", "resize")  # of the input in the first
METADATA = {"kind", "schema", "name", "topology", "digest"}
MAX_NAME = 100


def save_network(network: Network, path: str | os.PathLike) -> None:
    """Write `network` to `path`, all or nothing. Raises InputError (bad network) or StorageError."""
    write_bytes(path, encode_network(network))


def load_network(path: str | os.PathLike) -> Network:
    """Network of the file `path`; raises InputError unless every check of file and network passes."""
    return decode_network(*read_file(path), str(path))


def encode_network(network: Network) -> bytes:
    """Bytes of the file of `network`; the same network always gives the same bytes.

    Raises InputError, also for a network with lite residual modules (``unsupported``): they cannot be
    folded into its layers.
    """
    check_network(network)
    if network.added:
        raise InputError(
            "unsupported",
            f"{network.name} has {len(network.modules)} lite residual modules, which no layer of a plain "
            "network can stand for; keep backbone and delta, or adapt with --policy tinytrain",
        )
    tensors = {}
    for layer, weight, scale, bias in zip(
        network.layers, network.weights, network.scales, network.biases, strict=True
    ):
        tensors[f"{layer.name}.weight"] = weight
        tensors[f"{layer.name}.bias"] = bias
        if scale is not None:
            tensors[f"{layer.name}.scale"] = scale
    rows = rows_of(network.nodes)
    topology = {"layers": rows, "preprocessing": network.input.as_dict()}
    metadata = {
        "kind": KIND,
        "schema": _schema(network, rows),
        "name": "".join(letter for letter in network.name if letter.isprintable())[:MAX_NAME],
        "topology": json.dumps(topology, separators=(",", ":")),
        "digest": network.digest,
    }
    if network.quantisation is not None:
        metadata["codes"] = written_codes(network.quantisation)
    return encode(tensors, metadata)


def _schema(network: Network, rows: list[dict]) -> str:
    if "op" in rows[0]:
        return GRAPH
    if network.quantisation is not None:
        return WITH_CODES
    dense = any(row["kind"] == "conv" for row in rows[1:])
    if dense or used(network.input) or any(row.keys() & OPTIONAL.keys() for row in rows):
        return "3"
    return "1" if network.input.is_plain else "2"


def decode_network(tensors: dict, metadata: dict[str, str], source: str = "file") -> Network:
    """Network of what `decode` returned; `source` names the file in messages.

    Raises InputError ``file-kind`` or ``file-damaged`` or a code of `check_network`.
    """
    _check_metadata(metadata, source)
    nodes, spec = _parse_topology(metadata["topology"], metadata["schema"], source)
    check_nodes(nodes)
    layers = tuple(node for node in nodes if node.is_layer)
    _check_names(layers, tensors, source)
    network = Network(
        name=metadata["name"],
        nodes=nodes,
        weights=tuple(tensors[f"{layer.name}.weight"] for layer in layers),
        scales=tuple(tensors.get(f"{layer.name}.scale") for layer in layers),
        biases=tuple(tensors[f"{layer.name}.bias"] for layer in layers),
        input=spec,
        quantisation=parsed_codes(metadata["codes"], source) if "codes" in metadata else None,
    )
    check_rest(network)
    if network.digest != metadata["digest"]:
        raise InputError(
            "file-damaged",
            f"{source}: content {network.digest[:12]} does not match the digest {metadata['digest'][:12]!r}"
            " stored with it; copy the file again",
        )
    return network


def _check_metadata(metadata: dict[str, str], source: str) -> None:
    if metadata.get("kind") != KIND:
        raise InputError(
            "file-kind", f"{source} is not a network of ours; make one with: tinytrain import FILE -o NET"
        )
    if metadata.get("schema") not in SCHEMAS:
        raise InputError(
            "file-kind",
            f"{source} has schema {metadata.get('schema', 'none')[:20]!r}, this version reads"
            f" {' and '.join(map(repr, SCHEMAS))}; use the version that wrote it",
        )
    coded = metadata["schema"] == WITH_CODES or (metadata["schema"] == GRAPH and "codes" in metadata)
    keys = METADATA | {"codes"} if coded else METADATA
    # The name is shown to people: it must not be able to steer their terminal.
    if metadata.keys() != keys or len(metadata["name"]) > MAX_NAME or not metadata["name"].isprintable():
        raise InputError(
            "file-damaged",
            f"{source}: metadata must be exactly {', '.join(sorted(keys))}; the name has at most"
            f" {MAX_NAME} printable letters",
        )


def _parse_topology(text: str, schema: str, source: str) -> tuple[tuple[Node, ...], InputSpec]:
    topology = parse_json(text, f"{source}: topology", floats=True)
    if not isinstance(topology, dict) or topology.keys() != {"layers", "preprocessing"}:
        raise InputError("file-damaged", f"{source}: the topology must have exactly layers and preprocessing")
    rows = topology["layers"]
    if not isinstance(rows, list):
        raise InputError("file-damaged", f"{source}: layers must be a list")
    nodes = nodes_of(rows, schema, f"{source}: layer")
    return nodes, _input(topology["preprocessing"], schema, f"{source}: preprocessing")


def _input(row, schema: str, where: str) -> InputSpec:
    """In schema 1 no value is a list, in schema 2 those of each axis or channel are; later ones have both."""
    optional = optional_names(InputSpec) if schema in WITH_OPTIONAL else set()
    plain = "size" in row if optional and isinstance(row, dict) else schema == "1"
    values = fitting(PLAIN if plain else _names(InputSpec), optional, row, where)
    lists = {name for name, value in values.items() if isinstance(value, tuple)}
    if "parameters" in values and not isinstance(values["parameters"], dict):
        raise InputError("file-damaged", f"{where} must have parameters by their names")
    if lists != (set() if plain else {"shape", "mean", "scale"}):
        raise InputError("file-damaged", f"{where} has lists for numbers or numbers for lists")
    if plain:
        values["shape"] = (size := values.pop("size"), size, 3)
    return InputSpec(**values)


def _names(kind: type) -> list[str]:
    """Names of the fields that every schema has."""
    return [field.name for field in fields(kind) if field.name not in optional_names(kind)]


def _check_names(layers: tuple[Node, ...], tensors: dict, source: str) -> None:
    needed = {f"{layer.name}.{what}" for layer in layers for what in ("weight", "bias")}
    scales = {f"{layer.name}.scale" for layer in layers}
    if missing := sorted(needed - tensors.keys()):
        raise InputError("file-damaged", f"{source}: {len(missing)} tensors are missing, first {missing[0]}")
    if unknown := sorted(tensors.keys() - needed - scales):
        raise InputError(
            "file-damaged",
            f"{source}: {len(unknown)} tensors belong to no layer, first {unknown[0][:80]!r}",
        )
