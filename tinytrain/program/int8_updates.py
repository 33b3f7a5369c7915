"""The calls that start the optimizer of an int8 program and make one step of it.

The optimizer turns gradients into steps of the values. Weights are int8 all the time: a step becomes codes by
the rule of the recipe. Biases are float32.
"""

from collections.abc import Iterator

import numpy as np

from tinytrain.network.network import Network
from tinytrain.program.autodiff.int8_emitter import DTYPES
from tinytrain.program.autodiff.int8_ops import int8_weight, is_turned
from tinytrain.program.calls import Buffer, Call, Columns, LayerArray, Role, Table, View
from tinytrain.program.job import Job
from tinytrain.program.optimizer_stages import TRAINED, states, step_of
from tinytrain.program.stages import Value
from tinytrain.program.trained_arrays import Slot, slots

RULES = {"nearest": 0, "truncated": 1, "stochastic": 2, "carried": 3}  # those of `round_codes`
NO_REST = np.empty((0, 0), np.int8)
SEED = Table(Role.SEED, (1,), "uint32")


def start(job: Job, buffers: dict[str, Buffer]) -> Iterator[Call]:
    """Trained parameters from the working copy, everything else zero."""
    for slot, biases in _placed(job):
        if slot.part == "bias":
            yield Call("assign", (_biases(buffers, slot, biases), _array(job.network, slot, "bias")))
            continue
        values = View(buffers[TRAINED], slot.shape, slot.start)
        block, turned = _block(job.network, slot)
        yield Call("gather_weights", (values, *block, turned))
        if "master weights" in buffers:
            masters = View(buffers["master weights"], slot.shape, slot.start)
            yield Call("widen_codes", (masters, values, np.ones(slot.shape[1], np.float32), 0))
    rests = (buffers["rests of weights"].whole,) if "rests of weights" in buffers else ()
    for zero in (*rests, *states(job, buffers)):
        yield Call("clear", (zero,))


def update(job: Job, buffers: dict[str, Buffer], gradient: View) -> Iterator[Call]:
    """One optimizer step by `gradient`, which becomes the step, then the new values into the working copy."""
    yield step_of(job, buffers, gradient)
    placed = list(_placed(job))
    for salt, (slot, biases) in enumerate(placed):
        steps = View(gradient.buffer, slot.shape, slot.start)
        if slot.part == "bias":
            values = _biases(buffers, slot, biases)
            yield Call("take_step", (values, steps))
            yield Call("assign", (_array(job.network, slot, "bias"), values))
        else:
            yield from _round(job, buffers, slot, steps, salt)
    for layer in dict.fromkeys(slot.layer for slot, _ in placed):
        yield fold(job.network, layer)


def fold(network: Network, layer: int) -> Call:
    """What the sums of `layer` start with, of its new weights and biases."""
    cout, zero = network.layers[layer].cout, network.quantisation.given(layer - 1).zero if layer else 0
    arrays = (LayerArray(layer, n, (cout,), DTYPES.get(n, "int32")) for n in ("folded bias", "bias", "unit"))
    return Call("fold_bias", (*arrays, int8_weight(network, layer), zero, is_turned(network, layer)))


def _round(job: Job, buffers: dict[str, Buffer], slot: Slot, steps: View, salt: int) -> Iterator[Call]:
    """Take `steps` from the weights of a slot; `salt` is its number, by which rounding is drawn."""
    arithmetic = job.recipe.options.arithmetic
    values = View(buffers[TRAINED], slot.shape, slot.start)
    lsb = _array(job.network, slot, "lsb" if arithmetic.scaled else "scale")
    (weight, rows, columns), turned = _block(job.network, slot)
    if arithmetic.rounding == "masters":
        masters = View(buffers["master weights"], slot.shape, slot.start)
        yield Call("round_masters", (values, masters, steps, lsb, columns))
    else:
        rests = buffers.get("rests of weights")
        rest = NO_REST if rests is None else View(rests, slot.shape, slot.start)
        rule = RULES[arithmetic.rounding]
        yield Call("round_codes", (values, rest, steps, lsb, columns, SEED, rule, Value.STEP, salt))
    yield Call("scatter_weights", (weight, rows, columns, values, turned))


def _placed(job: Job) -> Iterator[tuple[Slot, int]]:
    """Slots, each with the number of biases before it."""
    before = 0
    for slot in slots(job.network, job.recipe):
        yield slot, before
        before += slot.size if slot.part == "bias" else 0


def _biases(buffers: dict[str, Buffer], slot: Slot, first: int) -> View:
    return View(buffers["trained biases"], slot.shape, first)


def _array(network: Network, slot: Slot, name: str) -> LayerArray:
    return LayerArray(slot.layer, name, (network.layers[slot.layer].cout,), DTYPES.get(name, "int32"))


def _block(network: Network, slot: Slot) -> tuple[tuple, bool]:
    """The weights that a slot is a block of, its rows and its columns; whether a row of them is an output."""
    rows = Columns(slot.layer, slot.shape[0], "every input" if slot.inputs is None else "inputs")
    block = int8_weight(network, slot.layer), rows, Columns(slot.layer, len(slot.channels))
    return block, is_turned(network, slot.layer)
