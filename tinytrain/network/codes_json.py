"""The codes of a network's layers as JSON: for files of networks and of deltas."""

import json

from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import parse_json
from tinytrain.network.quantisation import Codes, Quantisation


def written_codes(quantisation: Quantisation) -> str:
    """JSON with scale and zero of each code; its numbers give the same floats again."""
    rows = {
        name: [None if codes is None else [codes.scale, codes.zero] for codes in getattr(quantisation, name)]
        for name in ("outputs", "sums")
    }
    return json.dumps(rows, separators=(",", ":"))


def parsed_codes(text: str, source: str) -> Quantisation:
    """What `written_codes` wrote; the values are left to `check_network`."""
    rows = parse_json(text, f"{source}: codes", floats=True)
    if not isinstance(rows, dict) or rows.keys() != {"outputs", "sums"}:
        raise InputError("file-damaged", f"{source}: the codes must have exactly outputs and sums")
    parts = []
    for name in ("outputs", "sums"):
        row = rows[name]
        pairs = isinstance(row, list) and all(
            pair is None or (isinstance(pair, list) and len(pair) == 2) for pair in row
        )
        if not pairs:
            raise InputError("file-damaged", f"{source}: {name} must be a list of scales with zeros")
        parts.append(tuple(None if pair is None else Codes(*pair) for pair in row))
    return Quantisation(*parts)
