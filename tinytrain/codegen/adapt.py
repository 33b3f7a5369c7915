"""adapt.c: units, segments and stages of both programs, and the parameters that override those in flash."""

from collections.abc import Iterator

import numpy as np

from tinytrain.codegen.device import Device
from tinytrain.codegen.places import Places
from tinytrain.codegen.stages import INDENT, Writer
from tinytrain.codegen.text import array, comment, function, name_of

HEADING = """\
/* The program of an adaptation: passes as straight code, stages as loops. Written by tinytrain emit. */
#include "internal.h"

#include <string.h>

static uint16_t tt_hard[TT_SHOWN]; /* places of the hardest pseudo-queries */
static tt_layer tt_layers[TT_LAYERS]; /* each with what lies over it */
"""
SHOWN = """
/* Pseudo-query k of the step: view `{view}` of its image k. */
static tt_item tt_shown_item(uint32_t k)
{{
    return (tt_item){{(int16_t)({view}), tt_shown[tt_step - 1][k]}};
}}
"""
CHOOSE = "void tt_choose_channels(void)"
SHOW = """
/* Let the pass read a view of an image: as it is, or changed. */
static void {prefix}_show(const tt_unit *u, tt_item item)
{{
    tt_show(&tt_images[item.image], item.view ? {augmentation} : NULL, u->rows);{whole}
}}
"""
WHOLE = "\n    tt_show_rows({unit}image, 0, TT_HEIGHT);"  # in float32 a pass reads a whole image
OF_VIEW = (
    "(item.view > 0 ? &tt_views[item.view - 1][item.image] : &tt_head_views[-item.view - 1][item.image])"
)
EMBED = """
void tt_embed(int16_t view, int after)
{{
    const tt_unit *u = after ? &{after} : &{before};

    for (uint32_t p = 0; p < TT_SUPPORT; p++) {{
        train_load(u, (tt_item){{view, tt_image_at(p)}});
        tt_copy(TT_ROWS + p * TT_EMBEDDING, train_embed(u), TT_EMBEDDING);
        if (tt_row_failed)
            return;
    }}
}}

const float *tt_embed_image(const tt_image *image)
{{
    tt_show(image, NULL, {queries}.rows);{whole}
    {copy}({queries}.features, train_prefix(&{queries}), TT_FEATURES);
    return train_embed(&{queries});
}}
"""


def c_adapt(device: Device) -> str:
    """The whole file."""
    constants: dict = {}
    program = "\n".join(_lines(device, constants))
    named = (
        f"static const tt_{kind} {name} = {{{', '.join(map(str, values))}}};\n"
        for (kind, values), name in constants.items()
    )
    return f"{HEADING}\n{''.join(named)}\n{program}\n"


def _lines(device: Device, constants: dict) -> Iterator[str]:
    """Everything behind the `constants`, which are added while calls are written."""
    train = Writer(Places(device.training, constants))
    cached = device.training.resources.sets >= 2
    whole = "" if device.int8 else WHOLE
    yield SHOWN.format(view="tt_shown_views[tt_step - 1][k]" if cached else "tt_step")
    yield from _changes(device, train)
    if device.probe:
        probe = Writer(Places(device.probe, constants))
        yield comment("---- Fisher information ----")
        yield from _program(probe, whole, "&tt_probe_views[item.image]")
        yield comment("As many channels of each layer as planned, those with the most Fisher information.")
        yield from function(CHOOSE, _choice(device, probe))
    else:
        named = {f"channels of {u.layer}": u.channels for u in device.recipe.updates if u.channels}
        yield comment("The channels that the plan names.")
        yield from function(CHOOSE, _copied(named | _inputs(device)))
    yield comment("---- Training ----")
    yield from _program(train, whole, OF_VIEW)
    names = {name: f"train_unit_{name_of(name).lower()}" for name in device.training.units}
    how = {
        "whole": whole.format(unit=f"{names['queries']}."),
        "copy": "tt_copy_codes" if device.int8 else "tt_copy",
    }
    yield EMBED.format(before=names["embed"], after=names["embed after"], queries=names["queries"], **how)


def _program(writer: Writer, whole: str, augmentation: str) -> Iterator[str]:
    yield from writer.c_units()
    yield SHOW.format(prefix=writer.prefix, augmentation=augmentation, whole=whole.format(unit="u->"))
    yield from writer.c_segments()
    yield from writer.c_load()
    yield from writer.c_stages()


def _changes(device: Device, writer: Writer) -> Iterator[str]:
    """The parameters that override those in flash."""
    layers = list(dict.fromkeys(slot.layer for slot in device.slots))
    yield f"static const tt_change tt_changes[{len(layers)}] = {{"
    for layer in layers:
        parts = {slot.part: slot for slot in device.slots if slot.layer == layer}
        values = {"weight": "NULL", "bias": "NULL"} | {p: device.values(slot) for p, slot in parts.items()}
        channels, inputs = (w.channels, w.inputs) if (w := parts.get("weight")) else ((), None)
        chosen = writer.places.channels(layer) if channels else "NULL"
        read = "NULL" if inputs is None else writer.places.channels(layer, "inputs")
        some = f"{read}, {len(channels)}, {len(inputs or ())}" if device.int8 else len(channels)
        said = comment(f"layer {layer}, {device.network.all_layers[layer].name}")
        yield f"    {{{values['weight']}, {chosen}, {values['bias']}, {some}}}, {said}"
    yield "};"
    yield ""
    all_kept = (
        "for (uint32_t i = 0; i < TT_LAYERS; i++)",
        f"{INDENT}tt_layers[i] = (tt_layer){{&tt_kept[i], NULL}};",
    )
    changed = (f"tt_layers[{layer}].change = &tt_changes[{k}];" for k, layer in enumerate(layers))
    yield from function("void tt_use_changes(int on)", (*all_kept, "if (!on)", f"{INDENT}return;", *changed))


def _inputs(device: Device) -> dict[str, tuple[int, ...]]:
    """The inputs of layers that are trained for some of them."""
    return {f"inputs of {u.layer}": u.inputs for u in device.recipe.updates if u.inputs is not None}


def _copied(named: dict[str, tuple[int, ...]]) -> Iterator[str]:
    """Indices that the plan names to where all of them lie."""
    names = {name_of(name): indices for name, indices in named.items()}
    for name, indices in names.items():
        yield array(f"static const int32_t {name.lower()}", np.array(sorted(indices)))
    for name in names:
        yield f"memcpy(tt_channels + {name}, {name.lower()}, sizeof {name.lower()});"


def _choice(device: Device, probe: Writer) -> Iterator[str]:
    """As many channels of each layer as planned, those with the most Fisher information."""
    yield from _copied(_inputs(device))
    for layer, wanted in ((u.layer, len(u.channels)) for u in device.recipe.updates if u.channels):
        count, chosen = device.network.all_layers[layer].cout, probe.places.channels(layer)
        at = probe.places.whole(device.probe.buffers[f"fisher {layer}"])
        yield f"for (uint32_t c = 0; c < {count}; c++)"
        yield f"{INDENT}({at})[c] /= (float)TT_SUPPORT;"
        yield f'tt_trace("fisher {layer}", {at}, {4 * count});'
        yield f"tt_most({chosen}, {at}, {count}, {wanted});"
        yield f'tt_trace("channels {layer}", {chosen}, {4 * wanted});'
