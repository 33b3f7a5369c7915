"""Buffers of what is trained: parameters, what rounding left of them, gradients, state of the optimizer."""

from tinytrain.plan.costs import n_trained
from tinytrain.program.backend import BACKENDS
from tinytrain.program.calls import AFTER, BACKWARD, EMBED, Buffer, Role
from tinytrain.program.program import BufferTable

OPTIMIZER_STATES = {"sgd": 0, "momentum": 1, "adam": 2}  # bfloat16 moments per trained parameter
OPTIMIZER_BLOCK = 1024


def trained_buffers(table: BufferTable, job) -> list[Buffer]:
    """Trained parameters, optimizer; returns the gradient accumulators."""
    trained = n_trained(job.network, job.recipe.updates)
    if not trained:
        return []
    parameter_buffers(table, job, trained)
    accumulators = range(job.resources.accumulators)
    found = [
        table.add(f"gradients (worker {p})", (trained,), BACKWARD, BACKWARD, role=Role.GRADIENTS)
        for p in accumulators
    ]
    states = OPTIMIZER_STATES[job.recipe.optimizer]
    for k in range(states):
        table.add(f"optimizer state {k}", (trained,), EMBED, BACKWARD, "uint16", Role.MOMENTS)
    if states:
        room = (states * min(OPTIMIZER_BLOCK, trained),)
        table.add("optimizer workspace", room, BACKWARD, BACKWARD, role=Role.OPTIMIZER)
    return found


def parameter_buffers(table: BufferTable, job, trained: int) -> None:
    """The `trained` parameters of a job, and what their rule of rounding keeps beside them."""
    dtype = BACKENDS[job.recipe.precision].dtype
    table.add("trained parameters", (trained,), EMBED, AFTER, dtype, Role.PARAMETERS)
    if job.recipe.precision == "float32":
        return
    if biases := sum(u.n_biases(job.network) for u in job.recipe.updates):  # int8 ones stay unused
        table.add("trained biases", (biases,), EMBED, AFTER, role=Role.BIASES)
    kept = {"carried": ("rests of weights", "int8"), "masters": ("master weights", "float32")}
    if extra := kept.get(job.recipe.options.arithmetic.rounding):
        table.add(extra[0], (trained,), EMBED, BACKWARD, extra[1], Role.ROUNDING)
