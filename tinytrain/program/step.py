"""The program of one step of one image by stochastic gradient descent: the least that training takes.

Weights are updated behind the last gradient, or each as soon as that may be: then a gradient lives for a few
calls, and the next one lies in the same bytes. Adaptations of a task never do that, as their steps add up the
gradients of several images.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import cut_layer, n_trained
from tinytrain.plan.recipe import Recipe, Resources, Update
from tinytrain.program import int8_updates, optimizer_stages
from tinytrain.program.autodiff.int8_emitter import emitter_for
from tinytrain.program.autodiff.tape import Tape, Trained
from tinytrain.program.backend import BACKENDS
from tinytrain.program.calls import SHOWN, Bias, Buffer, Call, LayerArray, Segment, View, Weight
from tinytrain.program.in_place import Step, taken_at_once
from tinytrain.program.job import Job
from tinytrain.program.program import Book, Program, Purpose
from tinytrain.program.segments import externals_of, loss_calls, prefix_segment
from tinytrain.program.stages import Stage
from tinytrain.program.ticks import BACKWARD, EMBED
from tinytrain.program.trained_arrays import Slot, slots, trained_parts
from tinytrain.program.trained_buffers import parameter_buffers

ONE_IMAGE = Resources(sets=0, micro=1, accumulators=1, step_support=1, step_queries=1)
WORKSPACE, IMAGE, FEATURES = "workspace", "image", "features"


def everything(network: Network, recipe: Recipe) -> Recipe:
    """`recipe` for all weights and biases of `network`, with the first of its pairs of learning rates."""
    updates = tuple(Update(i, tuple(range(layer.cout)), bias=True) for i, layer in enumerate(network.layers))
    return replace(recipe, updates=updates, rates=recipe.rates[:1] * len(updates))


def compile_step(network: Network, recipe: Recipe, n_way: int, early: bool, at_once: bool = False) -> Program:
    """The program of one step of `recipe`, whose optimizer is "sgd", in the fewest bytes.

    It has a segment "prefix", unless the first block is trained, and a segment "step": forward pass, loss in
    constant prototypes, backward pass, updates. With `early`, each layer is updated as soon as its gradients
    are there and nothing reads its parameters any more; otherwise behind everything else. With `at_once`,
    gradients of weights are not even kept until then: see `in_place`. Stage "start" fills the trained
    parameters.
    """
    backend = BACKENDS[recipe.precision]
    start = network.block_start(cut_layer(network, recipe.updates))
    externals = externals_of(network, start, 0, backend)
    task, book = TaskShape(1, n_way), Book()
    job = Job(network, recipe, ONE_IMAGE, task, externals, start)
    parameter_buffers(book, job, n_trained(network, recipe.updates))
    trained = frozenset(book.buffers.values())
    own = {
        "prototypes": Buffer("prototypes", (n_way, network.embedding_size)),
        "label": Buffer("label", (1,), "int32"),
    }
    externals = {name: externals[name] for name in ("input", "features")} | own
    segments = {("step", 1): _step_segment(job, externals, book.buffers, (early, at_once))}
    if start:
        segments["prefix", 1] = prefix_segment(network, start, externals, backend=backend)
        if externals["input"].use != SHOWN:
            book.add(IMAGE, network.input.shape, EMBED, BACKWARD, "uint8")
    features = externals["features"]
    book.add(FEATURES, (1, *features.shape), EMBED, BACKWARD, features.dtype)
    for name, buffer in own.items():
        book.add(name, buffer.shape, EMBED, BACKWARD, buffer.dtype)
    book.add(WORKSPACE, (max(s.nbytes for s in segments.values()),), EMBED, BACKWARD, "uint8")
    calls = (int8_updates if recipe.precision == "int8" else optimizer_stages).start(job, book.buffers)
    stages = (Stage("start", EMBED, tuple(calls)),)
    externals |= {buffer.name: buffer for buffer in trained}
    purpose = Purpose(start, task, recipe, ONE_IMAGE)
    return Program(network, segments, book.buffers, book.place(), externals, {}, stages, purpose)


def _step_segment(job: Job, externals: dict[str, Buffer], buffers: dict[str, Buffer], when: tuple) -> Segment:
    """`when` the updates are made: whether early, and whether at once."""
    early, at_once = when
    network, last = job.network, len(job.network.layers)
    known = {*externals.values(), *buffers.values()}
    segment = Segment("step", 1, external=known, backend=BACKENDS[job.recipe.precision])
    emitter = emitter_for(segment, network)
    gradients = [_Gradient(slot, Buffer(gradient_name(network, slot), slot.shape)) for slot in _slots(job)]
    tape = Tape(cut_layer(network, job.recipe.updates), _trained(job, gradients))
    y = emitter.forward(externals["features"].images(1), job.start, last, tape)
    g = loss_calls(segment, emitter.pool(y), job.task.n_way, externals)
    emitter.backward(emitter.pool_grad(g), job.start, last, tape)
    steps = _steps(job, buffers, gradients)
    updates = _updates(job, taken_at_once(segment, steps) if at_once else steps)
    segment.calls = arranged(segment.calls, [g.buffer for g in gradients], updates, early)
    return segment.finish(keep=segment.outputs)


# ---- gradients ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Gradient:
    """The gradient of one trained array, in a buffer of its own."""

    slot: Slot
    buffer: Buffer


def _slots(job: Job) -> tuple[Slot, ...]:
    return slots(job.network, job.recipe)


def gradient_name(network: Network, slot: Slot) -> str:
    return f"{network.layers[slot.layer].name} {slot.part} gradient"


def _trained(job: Job, gradients: Sequence[_Gradient]) -> dict[int, Trained]:
    """As `trained_parts`, with a buffer for every gradient instead of one for all."""
    whole = Buffer("gradients", (n_trained(job.network, job.recipe.updates),))
    found = trained_parts(job.network, job.recipe, whole)
    for gradient in gradients:
        i, part = gradient.slot.layer, gradient.slot.part
        found[i] = replace(found[i], **{part: gradient.buffer.whole})
    return found


# ---- updates --------------------------------------------------------------------------------------


def _steps(job: Job, buffers: dict[str, Buffer], gradients: Iterable[_Gradient]) -> Iterator[Step]:
    """The update of every trained array, from the first layer to the last."""
    rates = {u.layer: pair for u, pair in zip(job.recipe.updates, job.recipe.rates, strict=True)}
    biases = 0
    for number, gradient in enumerate(gradients):
        slot = gradient.slot
        rate = np.array([rates[slot.layer][slot.part == "bias"]], np.float32)
        tables = np.array([0, slot.size], np.int32), rate
        calls = _update(job, buffers, (slot, biases, number), gradient.buffer.whole, tables)
        yield Step(slot.layer, gradient.buffer, tuple(calls))
        biases += slot.size if slot.part == "bias" else 0


def _updates(job: Job, steps: Iterable[Step]) -> dict[int, list[Call]]:
    """The calls that update each layer, from the last layer to the first."""
    found: dict[int, list[Call]] = {}
    for step in steps:
        found.setdefault(step.layer, []).extend(step.calls)
    if job.recipe.precision == "int8":
        for layer, calls in found.items():
            calls.append(int8_updates.fold(job.network, layer))
    return dict(reversed(found.items()))


def _update(job: Job, buffers: dict[str, Buffer], place: tuple, g: View, tables: tuple) -> Iterator[Call]:
    """The update of one trained array; `place` as in `int8_updates.take_steps`."""
    if job.recipe.precision == "int8":
        yield Call("sgd_step", (g.flat, *tables))
        yield from int8_updates.take_steps(job, buffers, place, g, step=1)
        return
    slot = place[0]
    values = View(buffers[optimizer_stages.TRAINED], slot.shape, slot.start)
    yield Call("sgd", (values.flat, g.flat, *tables))
    yield optimizer_stages.write_back(job.network, slot, values)


# ---- order ----------------------------------------------------------------------------------------


def arranged(
    calls: Sequence[Call], gradients: Iterable[Buffer], updates: dict[int, list[Call]], early: bool
) -> list[Call]:
    """`calls` of a pass with the `updates` of each layer among them or behind them.

    Every gradient is cleared just before the first call that adds to it. With `early`, a layer is updated
    behind the last call that names one of its gradients or new values, or reads one of its parameters.
    """
    behind: dict[int, list[Call]] = {}
    for layer, group in updates.items():
        named = [a for call in group for a in call.args if isinstance(a, View)]
        last = max(k for k, call in enumerate(calls) if _meets(call, named) or _reads(call, layer))
        behind.setdefault(last if early else len(calls) - 1, []).extend(group)
    left, found = set(gradients), []
    for k, call in enumerate(calls):
        for buffer in [b for b in left if _names(call, {b})]:
            found.append(Call("clear", (buffer.whole,)))
            left.remove(buffer)
        found += [call, *behind.get(k, ())]
    return found


def _meets(call: Call, views: Sequence[View]) -> bool:
    """Whether an argument of a call has a number in common with one of `views`."""
    own = [a for a in call.args if isinstance(a, View)]
    return any(
        a.buffer is b.buffer and a.start < b.start + b.size and b.start < a.start + a.size
        for a in own
        for b in views
    )


def _names(call: Call, buffers: set[Buffer]) -> bool:
    return any(isinstance(a, View) and a.buffer in buffers for a in call.args)


def _reads(call: Call, layer: int) -> bool:
    return any(isinstance(a, Weight | Bias | LayerArray) and a.layer == layer for a in call.args)
