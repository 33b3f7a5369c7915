"""delta.c's table: the delta of an adaptation as a safetensors file, of which all but the values is known.

The header is a constant, in which the device fills in the checksum of the file and what is known of the head:
its temperature, its accuracy for images that it has not seen, and its limit. Spaces stand for one that is
missing.
"""

import json
from collections.abc import Iterator

import numpy as np

from tinytrain.base.safetensors import CHECKSUM, DTYPES, NO_CHECKSUM, encode, value_places
from tinytrain.codegen.device import Device
from tinytrain.codegen.places import Places
from tinytrain.codegen.text import array, comment
from tinytrain.delta.file import metadata_of
from tinytrain.heads.calibration import TEMPERATURES, lead_fraction
from tinytrain.heads.head import FITTING, Support
from tinytrain.heads.out_of_distribution import margin
from tinytrain.heads.registry import find_head

NO_REPORT = "{}"  # that of a file from Python says more
NUMBER = "1.000000e+00"  # in place of what is known of the head
FACTS = {"temperature": NUMBER, "left_out": NUMBER, "scale": NUMBER, "least": f" {NUMBER}"}  # one has a sign


def c_delta_table(device: Device, class_names: tuple[str, ...]) -> Iterator[str]:
    """delta_table.c."""
    # In the order of `encode`: the widest numbers first.
    parts = sorted(_parts(device), key=lambda part: (-DTYPES[part[1]].itemsize, part[0]))
    header, at = _header(device, class_names)
    yield comment("The file of a delta: its header, and where its arrays lie. Written by tinytrain emit.")
    yield '#include "internal.h"'
    yield ""
    yield comment(f"Text: {header[8:].decode().strip()}")
    yield array("const uint8_t tt_delta_header", np.frombuffer(header, np.uint8))
    yield f"const uint32_t tt_delta_header_bytes = {len(header)}u;"
    yield f"const uint32_t tt_delta_sum_at = {at[CHECKSUM]}u;"
    places = np.array([at[name] for name in FACTS])
    yield array("const uint32_t tt_delta_facts_at", places, ", ".join(FACTS))
    yield array("const uint32_t tt_delta_facts_end", places + [len(text) for text in FACTS.values()])
    for name, place in (
        ("limit_at", at["limit"]), ("limit_end", at["end of limit"]),
        ("report_at", at["report"]), ("behind_report", at["report"] + len(f'{NO_REPORT}"')),
        ("header_end", len(header.rstrip(b" "))),
    ):  # fmt: skip
        yield f"const uint32_t tt_delta_{name} = {place}u;"
    support, before_and_after = np.full(device.ways, device.shots, np.float32), (0, device.recipe.n_steps)
    fractions = [lead_fraction(Support(tuple, tuple, support, steps)) for steps in before_and_after]
    margins = [margin(device.shots > 1, steps) for steps in before_and_after]
    for name, (before, after) in (("tt_lead_fractions", fractions), ("tt_margins", margins)):
        yield f"const double {name}[2] = {{{before!r}, {after!r}}};"
    yield array("const float tt_temperatures", TEMPERATURES, "candidates")
    yield "const tt_part tt_delta_parts[TT_PARTS] = {"
    for name, dtype, extent, pointer, limit in parts:
        size, count = DTYPES[dtype].itemsize, int(np.prod(extent))
        if dtype == "I32" and pointer != "NULL" and not limit:  # byte by byte: every sum is a finite number
            size, count = 1, size * count
        yield f"    {{{pointer}, {count}, {limit}, {size}}}, {comment(name)}"
    yield "};"
    yield ""


def n_parts(device: Device) -> int:
    return len(list(_parts(device)))


def delta_bytes(device: Device, class_names: tuple[str, ...]) -> int:
    """Bytes of the whole file."""
    return len(_file(device, _metadata(device, class_names, _head(device)[0])))


def _parts(device: Device) -> Iterator[tuple[str, str, tuple[int, ...], str, int]]:
    """(name, dtype, shape, pointer, limit) of every tensor; indices are below `limit`, 0 for values.

    Without a pointer a tensor is 0, 1, 2 and so on, or, of no limit, the number of embeddings of a class.
    """
    places = Places(device.training)
    for slot in device.slots:
        name, layer = f"{slot.layer}.{slot.part}", device.network.all_layers[slot.layer]
        chosen = places.channels(slot.layer) if slot.part == "weight" else "NULL"
        yield f"{name}.channels", "I32", (len(slot.channels),), chosen, layer.cout
        if slot.inputs is not None:
            read = places.channels(slot.layer, "inputs")
            yield f"{name}.inputs", "I32", (len(slot.inputs),), read, layer.cin
        dtype = "I8" if device.int8 and slot.part == "weight" else "F32"
        yield f"{name}.values", dtype, slot.shape, device.values(slot), 0
    method, embeddings = find_head(device.recipe.head), device.support * len(device.head_views)
    form = method.buffers_for(device.ways, device.network.embedding_size, embeddings)
    for b in (b for b in form if b.lifetime != FITTING):
        pointer = "NULL" if b.name == "counts" else places.whole(device.head_arrays[b.name])
        yield f"head.{b.name}", "I32" if b.dtype == "int32" else "F32", b.shape, pointer, 0


def _header(device: Device, class_names: tuple[str, ...]) -> tuple[bytes, dict[str, int]]:
    """Length and header, with zeros in place of the checksum, and where parts of it begin, by name."""
    head, within = _head(device)
    metadata = _metadata(device, class_names, head)
    at = value_places(metadata)
    data = _file(device, metadata)
    header = data[: 8 + int.from_bytes(data[:8], "little")]
    begin, end = at[CHECKSUM], at[CHECKSUM] + len(NO_CHECKSUM)
    zeros = header[:begin] + NO_CHECKSUM.encode() + header[end:]
    return zeros, at | {name: at["head"] + place for name, place in within.items()}


def _head(device: Device) -> tuple[str, dict[str, int]]:
    """What is known of the head, and where parts of this JSON begin inside of a text of JSON."""
    text, at = "", {}
    for name, part in (
        ("", f'{{"kind":"{device.recipe.head}","temperature":'), ("temperature", FACTS["temperature"]),
        ("", ',"left_out":'), ("left_out", FACTS["left_out"] if device.shots > 1 else "null"),
        ("", f',"views":{len(device.head_views)}'),
        ("limit", ',"limit":{"scale":'), ("scale", FACTS["scale"]),
        ("", ',"least":'), ("least", FACTS["least"]),
        ("", "}"), ("end of limit", "}"),
    ):  # fmt: skip
        at[name] = len(json.dumps(text)) - len('""')
        text += part
    return text, at


def _metadata(device: Device, class_names: tuple[str, ...], head: str) -> dict[str, str]:
    codes = device.network.quantisation if device.int8 else None
    return metadata_of(device.network.digest, device.network.name, class_names, head, NO_REPORT, codes)


def _file(device: Device, metadata: dict[str, str]) -> bytes:
    """A delta of this device, of zeros."""
    kinds = {name: (extent, DTYPES[dtype].newbyteorder("=")) for name, dtype, extent, *_ in _parts(device)}
    return encode({name: np.zeros(*kind) for name, kind in kinds.items()}, metadata)
