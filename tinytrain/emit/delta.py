"""delta.c's table: the delta of an adaptation as a safetensors file, of which all but the values is known.

The header is a constant, in which the device fills in the temperature and a checksum of the values.
"""

import json
from collections.abc import Iterator

import numpy as np

from tinytrain.delta.file import KIND, MAX_NAME, SCHEMA
from tinytrain.emit.device import Device
from tinytrain.emit.places import Places
from tinytrain.emit.text import array, comment, name_of
from tinytrain.heads.calibration import lead_fraction
from tinytrain.heads.head import FITTING, Support
from tinytrain.heads.registry import find_head
from tinytrain.program.head_buffers import head_views
from tinytrain.program.trained_arrays import slots

TEMPERATURE, CRC = "1.000000e+00", "00000000"  # their places in the header


def c_delta_table(device: Device, class_names: tuple[str, ...]) -> str:
    return "\n".join(_lines(device, class_names))


def _lines(device: Device, class_names: tuple[str, ...]) -> Iterator[str]:
    parts = sorted(_parts(device))
    header = _header(device, class_names, parts)
    yield comment("The file of a delta: its header, and where its arrays lie. Written by tinytrain emit.")
    yield '#include "internal.h"'
    yield ""
    yield comment(f"Text: {header[8:].decode().strip()}")
    yield array("const uint8_t tt_delta_header", np.frombuffer(header, np.uint8))
    yield f"const uint32_t tt_delta_header_bytes = {len(header)}u;"
    yield f"const uint32_t tt_delta_temperature_at = {_place(header, TEMPERATURE)}u;"
    yield f"const uint32_t tt_delta_crc_at = {_place(header, CRC)}u;"
    support = np.full(device.ways, device.shots, np.float32)
    least = lead_fraction(Support(tuple, tuple, support, device.recipe.steps))
    yield f"const float tt_lead_fraction = {np.float32(least):.9g}f;"
    yield ""
    yield "const tt_part tt_delta_parts[TT_PARTS] = {"
    for name, _, extent, pointer, limit in parts:
        yield f"    {{{pointer}, {int(np.prod(extent))}, {limit}}}, {comment(name)}"
    yield "};"
    yield ""


def n_parts(device: Device) -> int:
    return len(list(_parts(device)))


def _place(header: bytes, text: str) -> int:
    assert header.count(text.encode()) == 1, text
    return header.index(text.encode())


def _parts(device: Device) -> Iterator[tuple[str, str, tuple[int, ...], str, int]]:
    """(name, dtype, shape, pointer, limit) of every tensor; indices are below `limit`, 0 for values.

    Without a pointer a tensor is 0, 1, 2 and so on, or, of no limit, the number of embeddings of a class.
    """
    places, buffers = Places(device.training, "AT"), device.training.buffers
    parameters = places.whole(buffers["trained parameters"])
    for slot in slots(device.network, device.recipe):
        name, cout = f"{slot.layer}.{slot.part}", device.network.all_layers[slot.layer].cout
        chosen = f"tt_channels + {name_of(f'channels of {slot.layer}')}"
        yield (
            f"{name}.channels",
            "I32",
            (len(slot.channels),),
            chosen if slot.part == "weight" else "NULL",
            cout,
        )
        yield f"{name}.values", "F32", slot.shape, f"{parameters} + {slot.start}", 0
    method, views = find_head(device.recipe.head), views_of(device)
    form = method.buffers_for(device.ways, device.network.embedding_size, device.support * views)
    for b in (b for b in form if b.lifetime != FITTING):
        pointer = "NULL" if b.name == "counts" else places.whole(buffers[f"head result: {b.name}"])
        yield f"head.{b.name}", "I32" if b.dtype == "int32" else "F32", b.shape, pointer, 0


def views_of(device: Device) -> int:
    method = find_head(device.recipe.head)
    sizes = device.support, device.network.embedding_size
    return len(head_views(device.recipe, device.training.resources, method, *sizes))


def _header(device: Device, class_names: tuple[str, ...], parts) -> bytes:
    """The first bytes of the file: length and header."""
    facts = f'"kind":"{device.recipe.head}","temperature":{TEMPERATURE},"left_out":null'
    head = f'{{{facts},"views":{views_of(device)}}}'
    name = "".join(c for c in device.network.name if c.isprintable())[:MAX_NAME]
    metadata = {
        "backbone": device.network.digest, "backbone_name": name, "classes": json.dumps(list(class_names)),
        "head": head, "kind": KIND, "report": json.dumps({"crc32": CRC}), "schema": SCHEMA,
    }  # fmt: skip
    header, offset = {"__metadata__": metadata}, 0
    for tensor, dtype, extent, _, _ in parts:
        nbytes = 4 * int(np.prod(extent))
        header[tensor] = {"dtype": dtype, "shape": list(extent), "data_offsets": [offset, offset + nbytes]}
        offset += nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
