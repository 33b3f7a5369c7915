"""delta.c's table: the delta of an adaptation as a safetensors file, of which all but the values is known.

The header is a constant, in which the device fills in the checksum of the file and what is known of the head:
its temperature, its accuracy for images that it has not seen, and its limit. Spaces stand for one that is
missing.
"""

import json
from collections.abc import Iterator

import numpy as np

from tinytrain.base.safetensors import CHECKSUM, DTYPES, NO_CHECKSUM, encode
from tinytrain.delta.file import KIND, MAX_NAME, SCHEMA, WITH_CODES
from tinytrain.emit.device import Device
from tinytrain.emit.places import Places
from tinytrain.emit.text import array, comment, name_of
from tinytrain.heads.calibration import TEMPERATURES, lead_fraction
from tinytrain.heads.head import FITTING, Support
from tinytrain.heads.out_of_distribution import margin
from tinytrain.heads.registry import find_head
from tinytrain.network.codes_json import written_codes
from tinytrain.program.trained_arrays import slots

SUM_LABEL = f'"{CHECKSUM}":"'.encode()  # quotes of a name are escaped: it occurs once
NUMBER = "1.000000e+00"  # in place of what is known of the head
FACTS = {
    "temperature": NUMBER,
    "left_out": NUMBER,
    "scale": NUMBER,
    "least": f" {NUMBER}",
}  # the last has a sign


def c_delta_table(device: Device, class_names: tuple[str, ...]) -> str:
    return "\n".join(_lines(device, class_names))


def _lines(device: Device, class_names: tuple[str, ...]) -> Iterator[str]:
    # In the order of `encode`: the widest numbers first.
    parts = sorted(_parts(device), key=lambda part: (-DTYPES[part[1]].itemsize, part[0]))
    header = _header(_file(device, class_names))
    yield comment("The file of a delta: its header, and where its arrays lie. Written by tinytrain emit.")
    yield '#include "internal.h"'
    yield ""
    yield comment(f"Text: {header[8:].decode().strip()}")
    yield array("const uint8_t tt_delta_header", np.frombuffer(header, np.uint8))
    yield f"const uint32_t tt_delta_header_bytes = {len(header)}u;"
    yield f"const uint32_t tt_delta_sum_at = {_behind(header, SUM_LABEL)}u;"
    places = np.array([_behind(header, _inside(f'"{name}":')) for name in FACTS])
    yield array("const uint32_t tt_delta_facts_at", places, ", ".join(FACTS))
    yield array("const uint32_t tt_delta_facts_end", places + [len(text) for text in FACTS.values()])
    report = _behind(header, b'"report":"')  # that of a file from Python says more
    for name, at in (
        ("limit_at", header.rindex(_inside(',"limit":'))), ("limit_end", header.rindex(b'}","kind":')),
        ("report_at", report), ("behind_report", report + len('{}"')),
        ("header_end", len(header.rstrip(b" "))),
    ):  # fmt: skip
        yield f"const uint32_t tt_delta_{name} = {at}u;"
    support, before_and_after = np.full(device.ways, device.shots, np.float32), (0, device.recipe.n_steps)
    fractions = [lead_fraction(Support(tuple, tuple, support, steps)) for steps in before_and_after]
    margins = [margin(device.shots > 1, steps) for steps in before_and_after]
    for name, (before, after) in (("tt_lead_fractions", fractions), ("tt_margins", margins)):
        yield f"const double {name}[2] = {{{before!r}, {after!r}}};"
    yield array("const float tt_temperatures", TEMPERATURES, "candidates")
    yield "const tt_part tt_delta_parts[TT_PARTS] = {"
    for name, dtype, extent, pointer, limit in parts:
        size = DTYPES[dtype].itemsize
        yield f"    {{{pointer}, {int(np.prod(extent))}, {limit}, {size}}}, {comment(name)}"
    yield "};"
    yield ""


def n_parts(device: Device) -> int:
    return len(list(_parts(device)))


def delta_bytes(device: Device, class_names: tuple[str, ...]) -> int:
    """Bytes of the whole file."""
    return len(_file(device, class_names))


def _inside(text: str) -> bytes:
    """A text inside of a text of JSON."""
    return json.dumps(text)[1:-1].encode()


def _behind(header: bytes, label: bytes) -> int:
    """Where the last `label` ends. Facts about the head come behind the names of network and classes."""
    return header.rindex(label) + len(label)


def _parts(device: Device) -> Iterator[tuple[str, str, tuple[int, ...], str, int]]:
    """(name, dtype, shape, pointer, limit) of every tensor; indices are below `limit`, 0 for values.

    Without a pointer a tensor is 0, 1, 2 and so on, or, of no limit, the number of embeddings of a class.
    """
    places, buffers = Places(device.training), device.training.buffers
    parameters, biases = places.whole(buffers["trained parameters"]), 0
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
        if slot.inputs is not None:
            read = f"tt_channels + {name_of(f'inputs of {slot.layer}')}"
            yield (
                f"{name}.inputs",
                "I32",
                (len(slot.inputs),),
                read,
                device.network.all_layers[slot.layer].cin,
            )
        dtype, pointer = "F32", f"{parameters} + {slot.start}"
        if device.int8 and slot.part == "bias":
            pointer, biases = f"{places.whole(buffers['trained biases'])} + {biases}", biases + slot.size
        elif device.int8:
            dtype = "I8"
        yield f"{name}.values", dtype, slot.shape, pointer, 0
    method, embeddings = find_head(device.recipe.head), device.support * len(device.head_views)
    form = method.buffers_for(device.ways, device.network.embedding_size, embeddings)
    for b in (b for b in form if b.lifetime != FITTING):
        pointer = "NULL" if b.name == "counts" else places.whole(buffers[f"head result: {b.name}"])
        yield f"head.{b.name}", "I32" if b.dtype == "int32" else "F32", b.shape, pointer, 0


def _header(data: bytes) -> bytes:
    """The first bytes of the file `data`: length and header, with zeros in place of the checksum."""
    header = data[: 8 + int.from_bytes(data[:8], "little")]
    at = _behind(header, SUM_LABEL)
    return header[:at] + NO_CHECKSUM.encode() + header[at + len(NO_CHECKSUM) :]


def _file(device: Device, class_names: tuple[str, ...]) -> bytes:
    """A delta of this device, of zeros."""
    facts = f'"kind":"{device.recipe.head}","temperature":{FACTS["temperature"]}'
    facts += f',"left_out":{FACTS["left_out"] if device.shots > 1 else "null"}'
    limit = f'"limit":{{"scale":{FACTS["scale"]},"least":{FACTS["least"]}}}'
    metadata = {
        "backbone": device.network.digest,
        "backbone_name": "".join(c for c in device.network.name if c.isprintable())[:MAX_NAME],
        "classes": json.dumps(list(class_names)),
        "head": f'{{{facts},"views":{len(device.head_views)},{limit}}}',
        "kind": KIND,
        "report": "{}",
        "schema": WITH_CODES if device.int8 else SCHEMA,
    }
    if device.int8:
        metadata["codes"] = written_codes(device.network.quantisation)
    kinds = {name: (extent, DTYPES[dtype].newbyteorder("=")) for name, dtype, extent, *_ in _parts(device)}
    return encode({name: np.zeros(*kind) for name, kind in kinds.items()}, metadata)
