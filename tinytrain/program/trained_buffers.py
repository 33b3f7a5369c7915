"""Buffers of what is trained: parameters, what rounding left of them, gradients, state of the optimizer."""

from tinytrain.plan.costs import n_trained
from tinytrain.program.calls import AFTER, BACKWARD, EMBED, Role
from tinytrain.program.program import BufferTable

OPTIMIZER_STATES = {"sgd": 0, "momentum": 1, "adam": 2}  # bfloat16 moments per trained parameter
OPTIMIZER_BLOCK = 1024


def trained_buffers(table: BufferTable, job) -> None:
    """Trained parameters, their gradients, optimizer."""
    trained = n_trained(job.network, job.recipe.updates)
    if not trained:
        return
    parameter_buffers(table, job, trained)
    table.add("gradients", (trained,), BACKWARD, BACKWARD, role=Role.GRADIENTS)
    states = OPTIMIZER_STATES[job.recipe.optimizer]
    for k in range(states):
        table.add(f"optimizer state {k}", (trained,), EMBED, BACKWARD, "uint16", Role.MOMENTS)
    if states:
        room = (states * min(OPTIMIZER_BLOCK, trained),)
        table.add("optimizer workspace", room, BACKWARD, BACKWARD, role=Role.OPTIMIZER)


def parameter_buffers(table: BufferTable, job, trained: int) -> None:
    """The `trained` parameters of a job, and what their backend keeps beside them."""
    table.add("trained parameters", (trained,), EMBED, AFTER, job.backend.dtype, Role.PARAMETERS)
    job.backend.add_buffers(table, job, trained)
