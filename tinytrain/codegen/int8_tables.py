"""network.c of an int8 plan: codes of weights, and the constants that make codes of sums."""

from collections.abc import Iterator

import numpy as np

from tinytrain.codegen.device import Device
from tinytrain.codegen.text import array, by, comment, table
from tinytrain.network.network import Network
from tinytrain.network.quantisation import input_codes
from tinytrain.program.autodiff.int8_ops import is_turned
from tinytrain.program.backends.int8_copy import Int8Copy

# Arrays of a layer by the names of its working copy: in C, and what comes before their names in network.c.
ALWAYS = {"folded bias": ("int32_t", "start"), "factor": ("int32_t", "factor"), "shift": ("uint8_t", "shift")}
SLOPES = {"scale": ("float", "scales")}  # only gradients read them
TRAINED = {"bias": ("float", "bias"), "unit": ("float", "unit")}
STEPS = {"lsb": ("float", "steps")}  # of trained weights
ORDER = (*ALWAYS, *SLOPES, *TRAINED, *STEPS)  # as the fields of tt_weights
BYTES = {"int32_t": 4, "uint8_t": 1, "float": 4}


def c_int8_network(device: Device) -> Iterator[str]:
    network, working = device.network, Int8Copy(device.network)
    yield comment(
        f"Codes of {network.name}, digest {network.digest[:16]}, in int8. Written by tinytrain emit."
    )
    yield '#include "internal.h"'
    yield ""
    pixels = input_codes(network.input.mean, network.input.scale)[0]
    yield array("const int16_t tt_pixel_codes", pixels, "the code of every pixel value, by channel")
    entries = []
    for i, layer in enumerate(network.layers):
        said = f"layer {i}, {layer.name}: {layer.op}, {by(layer.kernel)}"
        codes = working.weight(i)
        yield array(f"static const int8_t codes_{i}", codes, f"{said}, {by(codes.shape)}")
        arrays = _arrays(device, i)
        for name, (kind, field) in arrays.items():
            yield array(f"static const {kind} {field}_{i}", working.array(i, name))
        fields = ", ".join(f"{arrays[name][1]}_{i}" if name in arrays else "NULL" for name in ORDER)
        given, zero = _zeros(network, i)
        sizes = f"{layer.fan_in}, {layer.cout}, {given}, {zero}, {int(not is_turned(network, i))}"
        entries.append(f"{{codes_{i}, {fields}, {sizes}}}")
    yield from table("const tt_weights tt_kept[TT_LAYERS]", entries)


def _arrays(device: Device, i: int) -> dict[str, tuple[str, str]]:
    """Those of layer i that something reads: names in the working copy, types and fields in C."""
    updates = device.recipe.updates
    own = [u for u in updates if u.layer == i]
    found = ALWAYS | (SLOPES if i >= min(u.layer for u in updates) else {}) | (TRAINED if own else {})
    return found | (STEPS if any(u.channels for u in own) else {})


def _zeros(network: Network, i: int) -> tuple[int, int]:
    """The codes of 0 in the input of layer i and in what its convolution gives."""
    codes = network.quantisation
    return codes.given(i - 1).zero if i else 0, codes.outputs[i].zero


def int8_bytes(device: Device) -> int:
    """Bytes of all these arrays."""
    network = device.network
    found = 2 * np.size(input_codes(network.input.mean, network.input.scale)[0])
    for i, layer in enumerate(network.layers):
        found += network.weights[i].size
        found += sum(BYTES[kind] * layer.cout for kind, _ in _arrays(device, i).values())
    return found
