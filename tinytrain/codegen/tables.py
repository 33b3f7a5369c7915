"""network.c, draws.c and plan.h: weights, tables of what is drawn, sizes and offsets."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from tinytrain.codegen.delta import delta_bytes, n_parts
from tinytrain.codegen.device import Device
from tinytrain.codegen.draws import Draws
from tinytrain.codegen.inputs import MOTION, settings_of
from tinytrain.codegen.int8_tables import int8_bytes
from tinytrain.codegen.placed import Placed
from tinytrain.codegen.places import Places
from tinytrain.codegen.text import array, braces, by, comment, defined, name_of, table
from tinytrain.episode.augment import Augmentation
from tinytrain.guard.guard import (
    LAST_FRACTION,
    LEAST_FIT,
    LEAST_RISE,
    MEDIAN_FRACTION,
    RISE_FRACTION,
    WORST_FRACTION,
)
from tinytrain.heads.calibration import TEMPERATURES
from tinytrain.heads.lda import least_ridge
from tinytrain.heads.out_of_distribution import LOST, SCALE, UNSURE
from tinytrain.heads.registry import find_head
from tinytrain.network.network import Network, frozen_bytes
from tinytrain.plan.costs import single_pass


def c_network(network: Network) -> Iterator[str]:
    """Weights, scales and biases of a float32 plan in constant arrays: flash."""
    yield comment(f"Weights of {network.name}, digest {network.digest[:16]}. Written by tinytrain emit.")
    yield '#include "internal.h"'
    yield ""
    yield array("const float tt_mean", np.array(network.input.mean, np.float32))
    yield array("const float tt_scale", np.array(network.input.scale, np.float32))
    entries = []
    for i, layer in enumerate(network.layers):
        weight, scale = network.weights[i], network.scales[i]
        said = f"layer {i}, {layer.name}: {layer.op}, {by(weight.shape)}, {by(layer.kernel)}"
        if scale is not None:
            yield array(f"static const int8_t codes_{i}", weight, said)
            yield array(f"static const float scales_{i}", scale)
        else:
            yield array(f"static const float values_{i}", weight, said)
        yield array(f"static const float bias_{i}", network.biases[i])
        values = f"NULL, NULL, values_{i}" if scale is None else f"codes_{i}, scales_{i}, NULL"
        entries.append(f"{{{values}, bias_{i}, {layer.fan_in}, {layer.cout}}}")
    yield from table("const tt_weights tt_kept[TT_LAYERS]", entries)


def flash_bytes(device: Device) -> int:
    """Bytes of the arrays of network.c."""
    return int8_bytes(device) if device.int8 else frozen_bytes(device.network)


def _augmentation(a: Augmentation) -> str:
    values = map(np.float32, (a.cosine, a.sine, a.brightness, a.saturation, a.contrast))
    return braces([*values, a.down, a.right, a.flip])


def _views(name: str, size: str, views: list[list[Augmentation]]) -> Iterator[str]:
    yield f"const tt_augmentation {name}[{size}][TT_SUPPORT] = {{"
    for view in views or [[]]:
        yield "    {"
        yield from (f"        {_augmentation(a)}," for a in view or [Augmentation()])
        yield "    },"
    yield "};"
    yield ""


def _table(declaration: str, values: Iterable[np.ndarray]) -> Iterator[str]:
    return table(f"const {declaration}", map(braces, values))


def c_draws(device: Device, draws: Draws) -> Iterator[str]:
    """draws.c: what is drawn at random, and learning rates."""
    every = device.slots
    yield comment(
        f"What is drawn at random, with seed {draws.seed}, and learning rates. Written by tinytrain emit."
    )
    yield '#include "internal.h"'
    yield ""
    yield comment("cosine, sine, brightness, saturation, contrast, down, right, flip of each image")
    if draws.probe:
        yield from table("const tt_augmentation tt_probe_views[TT_SUPPORT]", map(_augmentation, draws.probe))
    if device.network.input.kind == MOTION:
        yield comment("in which recordings are shown, by number: the sixth value of a view")
        yield from _table("float tt_noise[][TT_CHANNELS]", draws.noise or [np.zeros(1, np.float32)])
    yield from _views("tt_views", "TT_VIEWS", draws.views)
    yield from _views("tt_head_views", "TT_HEAD_VIEWS", draws.head)
    yield comment("by step: images that it looks at, and views of them that are its pseudo-queries")
    yield from _table("uint16_t tt_shown[TT_STEPS][TT_SHOWN]", draws.shown)
    yield from _table("uint16_t tt_shown_views[TT_STEPS][TT_SHOWN]", draws.shown_views)
    yield comment("by step: images that the gradient of prototypes goes through")
    sampled = draws.sampled if draws.sampled.size else np.zeros((device.recipe.n_steps, 1), np.int32)
    yield from _table("uint16_t tt_sampled[TT_STEPS][TT_SAMPLED]", sampled)
    yield from _table("float tt_divisors[TT_STEPS][TT_WAYS]", draws.divisors)
    if device.int8:
        yield f"const uint32_t tt_rounding_seed = {draws.seed & 0x7FFFFFFF}u;"
    yield array("const float tt_rate_factors", draws.factors)
    rates = {u.layer: r for u, r in zip(device.recipe.updates, device.recipe.rates, strict=True)}
    full = np.array([rates[s.layer][s.part == "bias"] for s in every], np.float32)
    yield array("const float tt_full_rates", full, "learning rates of slices of the trained parameters")
    starts = [*(s.start for s in every), sum(s.size for s in every)]
    yield array("const int32_t tt_starts", np.array(starts, np.int32))


def c_plan(device: Device, draws: Draws, class_names: tuple[str, ...]) -> Iterator[str]:
    """plan.h: every size, and the memory map."""
    network, recipe, training = device.network, device.recipe, device.training
    height, width, channels = network.input.shape
    every = device.slots
    weights = [s for s in every if s.part == "weight"]
    chosen = [(f"channels of {s.layer}", len(s.channels)) for s in weights]
    chosen += [(f"inputs of {s.layer}", len(s.inputs)) for s in weights if s.inputs is not None]
    steps, head, shown = recipe.n_steps, find_head(recipe.head), training.image_rows
    yield comment(f"Sizes of {network.name} and its plan, and the memory map. Written by tinytrain emit.")
    features = math.prod(training.externals["features"].shape)
    sizes = {
        "TT_WAYS": (device.ways, "classes"), "TT_SHOTS": (device.shots, "images of each class"),
        "TT_SUPPORT": (device.support, "images in all"), "TT_HEIGHT": (height, "of an image"),
        "TT_WIDTH": (width, ""), "TT_CHANNELS": (channels, ""),
        "TT_ROW_BYTES": (shown.row_bytes, "of a row of it"),
        "TT_HELD_ROWS": (shown.count, "that a pass holds, in its workspace"),
        "TT_LAST_ROW_FIRST": (int(shown.last_first), "1: tt_predict asks for the last row first"),
        "TT_LAYERS": (len(network.layers), ""),
        "TT_MACS": (network.macs, "multiply-accumulates of one image"),
        "TT_WIDEST": (max(layer.cout for layer in network.layers), "output channels of one of them"),
        "TT_INT8": (int(device.int8), "1: weights and values between layers are int8"),
        "TT_EMBEDDING": (network.embedding_size, "numbers of an embedding"),
        "TT_FEATURES": (features, "numbers that the frozen part leaves"),
        "TT_STEPS": (steps, "of training"), "TT_SETS": (training.resources.sets, "cached sets of features"),
        "TT_VIEWS": (len(draws.views), "augmented views"), "TT_HEAD_VIEWS": (max(1, len(draws.head)), ""),
        "TT_SHOWN": (training.resources.step_queries, "images that a step looks at"),
        "TT_SINGLE_PASS": (int(single_pass(recipe, training.resources)), "1: it computes some of them, once"),
        "TT_SAMPLED": (max(1, draws.sampled.shape[1]), "images that prototypes are trained by in a step"),
        "TT_SLICES": (len(every), "trained arrays"),
        "TT_TRAINED": (sum(s.size for s in every), "trained parameters"),
        "TT_CHOSEN": (max(1, sum(n for _, n in chosen)), "trained columns, and inputs of some"),
        "TT_MEASURED": (int(device.probe is not None), "1: Fisher information chooses these columns"),
        "TT_FITTED": (device.support * len(device.head_views), "embeddings that the head is fitted to"),
        "TT_PARTS": (n_parts(device), "arrays of a delta"),
        "TT_DELTA_BYTES": (delta_bytes(device, class_names), "of its file"),
        "TT_TEMPERATURES": (len(TEMPERATURES), "candidates for that of the head"),
        "TT_LAST_STEPS": (max(1, round(LAST_FRACTION * steps)), "whose mean loss is the last one"),
    }  # fmt: skip
    for name, (value, said) in sizes.items():
        yield f"#define {name} {value}u{' ' + comment(said) if said else ''}"
    yield from defined(settings_of(network.input))
    said = comment("that the head is fitted to; the last one is 0")
    yield f"#define TT_FIRST_VIEW ({device.head_views[0]}) {said}"
    for name, value in (
        ("GUESS", np.log(device.ways)), ("RISE_FRACTION", RISE_FRACTION),
        ("LEAST_RISE", LEAST_RISE * np.log(device.ways)), ("WORST_FRACTION", WORST_FRACTION),
        ("LEAST_FIT", LEAST_FIT), ("MEDIAN_FRACTION", MEDIAN_FRACTION),
    ):  # fmt: skip
        yield f"#define TT_{name} ({float(value)!r}) {comment('of the guard')}"
    for name, value in (("ENERGY_SCALE", SCALE), ("LOST", LOST), ("UNSURE", UNSURE)):
        yield f"#define TT_{name} ({value!r}) {comment('of what tells images of no class')}"
    if hasattr(head, "shrinkage"):
        few, least = "embeddings" in device.head_arrays, least_ridge(head.shrinkage, network.embedding_size)
        yield f"#define TT_SHRINKAGE {head.shrinkage} {comment('of the covariance of the head')}"
        yield f"#define TT_LEAST_RIDGE {least!r}"
        yield f"#define TT_FEW {int(few)} {comment('1: fewer embeddings than half their numbers')}"
    at = 0
    for name, count in chosen:
        said = comment(f"{count} {name.replace(' of ', ' of layer ')}")
        yield f"#define {name_of(name)} {at}u {said}"
        at += count
    yield ""
    yield comment(f"Flash: {flash_bytes(device):,} bytes of weights.")
    yield comment(f"RAM: the arena, {device.arena:,} bytes.")
    yield f"#define TT_ARENA_BYTES {device.arena}u"
    yield ""
    yield from _map(training, "an adaptation")
    if device.probe:
        yield from _map(device.probe, "Fisher scoring, before it")


def _map(program: Placed, what: str) -> Iterator[str]:
    places = Places(program)
    yield comment(
        f"Memory map of {what}, {program.nbytes:,} bytes: offset, then bytes, and from when to when it lives."
    )
    for row in sorted(program.table(), key=lambda row: (row["offset"], row["first"])):
        buffer = program.buffers[row["name"]]
        life = f"ticks {row['first']} to {row['last']}"
        said = f"{by(buffer.shape)} {buffer.dtype}, {row['bytes']:,} bytes, {life}"
        yield f"#define {places.macro(buffer.name)} {row['offset']}u {comment(said)}"
    yield ""
