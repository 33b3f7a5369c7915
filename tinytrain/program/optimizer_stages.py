"""The calls that start the optimizer and make one step of it."""

from collections.abc import Iterator

import numpy as np

from tinytrain.network.network import Network
from tinytrain.program.calls import Bias, Buffer, Call, Columns, Role, Table, View, Weight
from tinytrain.program.job import Job
from tinytrain.program.stages import Value
from tinytrain.program.trained_arrays import Slot, slots
from tinytrain.program.trained_buffers import OPTIMIZER_STATES

MOMENTUM = (np.float32(0.9),)
ADAM = (np.float32(0.9), np.float32(0.999))
TRAINED = "trained parameters"


def start(job: Job, buffers: dict[str, Buffer]) -> Iterator[Call]:
    """Trained parameters from the working copy, optimizer state zero."""
    for slot in slots(job.network, job.recipe):
        values, target = View(buffers[TRAINED], slot.shape, slot.start), whole_part(job.network, slot)
        if slot.size == target.extent[0]:
            yield Call("assign", (values.flat, target))
        else:
            yield Call("gather_block", (values, *block_of(job.network, slot)))
    for state in states(job, buffers):
        yield Call("clear", (state,))


def update(job: Job, buffers: dict[str, Buffer], gradient: View) -> Iterator[Call]:
    """One optimizer step by `gradient`, which becomes the step, then the new values into the working copy."""
    yield step_of(job, buffers, gradient)
    yield Call("take_step", (buffers[TRAINED].whole, gradient))
    for slot in slots(job.network, job.recipe):
        values, target = View(buffers[TRAINED], slot.shape, slot.start), whole_part(job.network, slot)
        if slot.size == target.extent[0]:
            yield Call("copy", (target, values.flat))
        else:
            yield Call("scatter_block", (*block_of(job.network, slot), values))


def step_of(job: Job, buffers: dict[str, Buffer], gradient: View) -> Call:
    """What turns `gradient` into what is to be taken from the trained parameters."""
    recipe, count = job.recipe, len(slots(job.network, job.recipe))
    rates = (Table(Role.STARTS, (count + 1,), "int32"), Table(Role.RATES, (count,)))
    if recipe.optimizer == "sgd":
        return Call("sgd_step", (gradient, *rates))
    values = MOMENTUM if recipe.optimizer == "momentum" else (*ADAM, Value.STEP)
    arrays = (gradient, *states(job, buffers), buffers["optimizer workspace"].whole, *rates)
    return Call(f"{recipe.optimizer}_step", (*arrays, *values))


def states(job: Job, buffers: dict[str, Buffer]) -> tuple[View, ...]:
    """The moments of the optimizer."""
    count = OPTIMIZER_STATES[job.recipe.optimizer]
    return tuple(buffers[f"optimizer state {k}"].whole for k in range(count))


def whole_part(network: Network, slot: Slot) -> Weight | Bias:
    """All values of the array that a slot is a part of, in one row."""
    layer = network.all_layers[slot.layer]
    if slot.part == "bias":
        return Bias(slot.layer, (layer.cout,))
    return Weight(slot.layer, (layer.fan_in, layer.cout), flat=True)


def block_of(network: Network, slot: Slot) -> tuple[Weight, Columns, Columns]:
    """The weight that a slot is a block of, its rows and its columns."""
    layer = network.all_layers[slot.layer]
    rows = Columns(slot.layer, slot.shape[0], "every input" if slot.inputs is None else "inputs")
    weight = Weight(slot.layer, (layer.fan_in, layer.cout))
    return weight, rows, Columns(slot.layer, len(slot.channels))
