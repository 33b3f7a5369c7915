"""Buffers of what is trained: parameters, what rounding left of them, gradients, state of the optimizer."""

from tinytrain.plan.costs import n_trained
from tinytrain.program.calls import Buffer
from tinytrain.program.program import Book
from tinytrain.program.ticks import AFTER, BACKWARD, EMBED

OPTIMIZER_STATES = {"sgd": 0, "momentum": 1, "adam": 2}  # bfloat16 moments per trained parameter
OPTIMIZER_BLOCK = 1024
OPTIMIZER = "optimizer"


def trained_buffers(book: Book, job) -> list[Buffer]:
    """Trained parameters, optimizer; returns the gradient accumulators."""
    trained = n_trained(job.network, job.recipe.updates)
    if not trained:
        return []
    parameter_buffers(book, job, trained)
    accumulators = range(job.resources.accumulators)
    found = [
        book.add(f"gradients (worker {p})", (trained,), BACKWARD, BACKWARD, use="gradients")
        for p in accumulators
    ]
    states = OPTIMIZER_STATES[job.recipe.optimizer]
    for k in range(states):
        book.add(f"optimizer state {k}", (trained,), EMBED, BACKWARD, "uint16", OPTIMIZER)
    if states:
        room = (states * min(OPTIMIZER_BLOCK, trained),)
        book.add("optimizer workspace", room, BACKWARD, BACKWARD, use=OPTIMIZER)
    return found


def parameter_buffers(book: Book, job, trained: int) -> None:
    """The `trained` parameters of a job, and what their rule of rounding keeps beside them."""

    def add(name: str, count: int, dtype: str = "float32", last: int = AFTER) -> None:
        book.add(name, (count,), EMBED, last, dtype, use="trained parameters")

    if job.recipe.precision == "float32":
        add("trained parameters", trained)
        return
    add("trained parameters", trained, "int8")  # those that are biases stay unused
    if biases := sum(u.n_biases(job.network) for u in job.recipe.updates):
        add("trained biases", biases)
    kept = {"carried": ("rests of weights", "int8"), "masters": ("master weights", "float32")}
    if extra := kept.get(job.recipe.options.arithmetic.rounding):
        add(extra[0], trained, extra[1], BACKWARD)
