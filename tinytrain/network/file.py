"""Networks in files: int8 weights, scales, biases and topology in the safetensors layout.

Tensors are ``<layer>.weight`` (int8 or float32), ``<layer>.scale`` (float32, with int8 weights only)
and ``<layer>.bias`` (float32); metadata holds kind, schema, name, topology (JSON), digest and, if the network
has any, the codes of its layers' outputs (JSON).
"""

import json
import os
from collections.abc import Sequence
from dataclasses import fields

from tinytrain.base.errors import InputError
from tinytrain.base.files import write_bytes
from tinytrain.base.safetensors import decode, encode, parse_json, read_file
from tinytrain.network.codes_json import parsed_codes, written_codes
from tinytrain.network.network import InputSpec, Layer, Network
from tinytrain.network.optional_fields import optional_names, used, written
from tinytrain.network.validation import check_layers, check_network

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
# convolutions behind the first layer, the fourth only for networks with codes.
SCHEMAS = ("1", "2", "3", "4")
WITH_OPTIONAL = ("3", "4")
WITH_CODES = "4"
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
            "network can stand for; keep backbone and delta, or adapt with another policy than tinytl",
        )
    tensors = {}
    for layer, weight, scale, bias in zip(
        network.layers, network.weights, network.scales, network.biases, strict=True
    ):
        tensors[f"{layer.name}.weight"] = weight
        tensors[f"{layer.name}.bias"] = bias
        if scale is not None:
            tensors[f"{layer.name}.scale"] = scale
    topology = {
        "layers": [written(layer) for layer in network.layers],
        "preprocessing": network.input.as_dict(),
    }
    metadata = {
        "kind": KIND,
        "schema": _schema(network),
        "name": "".join(letter for letter in network.name if letter.isprintable())[:MAX_NAME],
        "topology": json.dumps(topology, separators=(",", ":")),
        "digest": network.digest,
    }
    if network.quantisation is not None:
        metadata["codes"] = written_codes(network.quantisation)
    return encode(tensors, metadata)


def _schema(network: Network) -> str:
    if network.quantisation is not None:
        return WITH_CODES
    dense = any(layer.kind == "conv" for layer in network.layers[1:])
    if dense or any(map(used, (network.input, *network.layers))):
        return "3"
    return "1" if network.input.is_plain else "2"


def decode_network(tensors: dict, metadata: dict[str, str], source: str = "file") -> Network:
    """Network of what `decode` returned; `source` names the file in messages.

    Raises InputError ``file-kind`` or ``file-damaged`` or a code of `check_network`.
    """
    _check_metadata(metadata, source)
    layers, spec = _parse_topology(metadata["topology"], metadata["schema"], source)
    check_layers(layers)
    _check_names(layers, tensors, source)
    network = Network(
        name=metadata["name"],
        layers=layers,
        weights=tuple(tensors[f"{layer.name}.weight"] for layer in layers),
        scales=tuple(tensors.get(f"{layer.name}.scale") for layer in layers),
        biases=tuple(tensors[f"{layer.name}.bias"] for layer in layers),
        input=spec,
        quantisation=parsed_codes(metadata["codes"], source) if "codes" in metadata else None,
    )
    check_network(network)
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
    keys = METADATA | {"codes"} if metadata["schema"] == WITH_CODES else METADATA
    # The name is shown to people: it must not be able to steer their terminal.
    if metadata.keys() != keys or len(metadata["name"]) > MAX_NAME or not metadata["name"].isprintable():
        raise InputError(
            "file-damaged",
            f"{source}: metadata must be exactly {', '.join(sorted(keys))}; the name has at most"
            f" {MAX_NAME} printable letters",
        )


def _parse_topology(text: str, schema: str, source: str) -> tuple[tuple[Layer, ...], InputSpec]:
    topology = parse_json(text, f"{source}: topology", floats=True)
    if not isinstance(topology, dict) or topology.keys() != {"layers", "preprocessing"}:
        raise InputError("file-damaged", f"{source}: the topology must have exactly layers and preprocessing")
    rows = topology["layers"]
    if not isinstance(rows, list):
        raise InputError("file-damaged", f"{source}: layers must be a list")
    names, optional = _names(Layer), optional_names(Layer) if schema in WITH_OPTIONAL else set()
    layers = tuple(Layer(**_row(names, optional, row, f"{source}: layer {i}")) for i, row in enumerate(rows))
    return layers, _input(topology["preprocessing"], schema, f"{source}: preprocessing")


def _input(row, schema: str, where: str) -> InputSpec:
    """In schema 1 no value is a list, in schema 2 those of each axis or channel are; 3 and 4 have both."""
    optional = optional_names(InputSpec) if schema in WITH_OPTIONAL else set()
    plain = "size" in row if optional and isinstance(row, dict) else schema == "1"
    values = _row(PLAIN if plain else _names(InputSpec), optional, row, where)
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


def _row(names: Sequence[str], optional: set[str], row, where: str) -> dict:
    """Constructor arguments from a JSON object with exactly the fields `names`, and any of `optional`."""
    if not isinstance(row, dict) or row.keys() - optional != set(names):
        raise InputError("file-damaged", f"{where} must have exactly the fields {', '.join(names)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def _check_names(layers: tuple[Layer, ...], tensors: dict, source: str) -> None:
    needed = {f"{layer.name}.{what}" for layer in layers for what in ("weight", "bias")}
    scales = {f"{layer.name}.scale" for layer in layers}
    if missing := sorted(needed - tensors.keys()):
        raise InputError("file-damaged", f"{source}: {len(missing)} tensors are missing, first {missing[0]}")
    if unknown := sorted(tensors.keys() - needed - scales):
        raise InputError(
            "file-damaged",
            f"{source}: {len(unknown)} tensors belong to no layer, first {unknown[0][:80]!r}",
        )
