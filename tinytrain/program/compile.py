"""From a network, a recipe and resources to a Program: segments, stages, buffers, and one layout in bytes."""

import math
from dataclasses import replace

from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import n_hard, n_sampled
from tinytrain.plan.recipe import MOST_WORKERS, Recipe, Resources
from tinytrain.program.backends.registry import FLOAT32, find_backend
from tinytrain.program.buffers import add_buffers
from tinytrain.program.calls import Buffer, Call, Role, Table
from tinytrain.program.forward import forward_segments, loaded, unit_of_one
from tinytrain.program.job import Job
from tinytrain.program.program import BufferTable, CompileTarget, Program
from tinytrain.program.segments import SegmentBank, externals_of, fisher_segment
from tinytrain.program.stages import Items, Of, Repeat, Run, Stage, Unit
from tinytrain.program.training_stages import TrainingStages


def compile_training(
    network: Network,
    recipe: Recipe,
    resources: Resources,
    task: TaskShape,
    bank: SegmentBank | None = None,
    limit: float = math.inf,
) -> Program | None:
    """The program of one adaptation: fill the cache, fit a head, train, fit a head again, predict.

    None if it takes more than `limit` bytes. A `bank` of the same network and recipe saves emitting the
    same segments for other resources.
    """
    bank = bank or SegmentBank(network, recipe)
    job = Job(bank.network, recipe, resources, task, bank.externals, bank.start, bank.backend)
    segments, table = bank.segments(_segments(job)), BufferTable()
    units = add_buffers(table, job, segments.values())
    layout = table.place(limit)
    if layout is None:
        return None
    stages = tuple(TrainingStages(job, table.buffers, units).all())
    purpose = CompileTarget(bank.start, task, recipe, resources)
    return Program(bank.network, segments, table.buffers, layout, bank.externals, units, stages, purpose)


def training_bytes(
    bank: SegmentBank, resources: Resources, task: TaskShape, limit: float = math.inf
) -> int | None:
    """Bytes that the program of one adaptation takes; None if these are more than `limit`."""
    job = Job(bank.network, bank.recipe, resources, task, bank.externals, bank.start, bank.backend)
    table = BufferTable()
    add_buffers(table, job, [bank.size(*key) for key in _segments(job)])
    layout = table.place(limit)
    return None if layout is None else layout.nbytes


def _segments(job: Job) -> list[tuple[str, int]]:
    """Kind and number of images of all segments that run."""
    r, task = job.resources, job.task
    embedded = {1} | _tails(r.step_support, r.micro)
    if not job.single_pass:
        embedded |= _tails(r.step_queries, r.micro) | _tails(job.shown, r.micro)
    # Heads see all images, a step's worth at a time.
    embedded |= _tails(task.n_support % r.step_support, r.micro)
    found = [("prefix", 1)] if job.start > 0 else []
    found += [("embed", n) for n in sorted(embedded)]
    kinds = ("forward", "back") if job.single_pass else ("backward",)
    return found + [(kind, n) for n in sorted(_backward_counts(job)) for kind in kinds]


def _tails(count: int, micro: int) -> set[int]:
    """Sizes of the micro-batches of `count` images."""
    return {min(micro, count), count % micro or micro} if count else set()


def _backward_counts(job: Job) -> set[int]:
    if not job.trains:
        return set()
    r, recipe = job.resources, job.recipe
    unlabelled, images = job.shown - r.step_queries, (r.step_support, r.step_queries)
    counts = _tails(n_hard(recipe.options.hard_fraction, *images) + unlabelled, r.micro)
    return counts | _tails(n_sampled(recipe, *images), r.micro)


def compile_fisher(
    network: Network,
    inspected: tuple[int, ...],
    task: TaskShape,
    row_tile: int | None = None,
    precision: str = FLOAT32.name,
    memory: int = 0,
) -> Program:
    """The program of Fisher scoring: prototypes, then one backward pass per image through inspected layers.

    Blocks are computed again just before their backward pass, so that only one block's inner
    values are ever alive beside the inputs of the blocks. It has as many workers as fit into `memory` bytes,
    at least one.
    """
    start = network.block_start(min(inspected))
    backend = find_backend(precision)
    externals = externals_of(network, start, 0, backend)
    size, way = network.embedding_size, task.n_way
    totals = {i: Buffer(f"fisher {i}", (network.layers[i].cout,)) for i in inspected}
    externals |= {buffer.name: buffer for buffer in totals.values()}
    externals["prototypes"] = Buffer("prototypes", (way, size))
    externals["label"] = Buffer("label", (1,), "int32", Role.LABEL)
    segments = forward_segments(network, start, externals, row_tile, backend)
    segments["fisher", 1] = fisher_segment(network, start, inspected, way, externals, backend)
    for workers in range(min(MOST_WORKERS, task.n_support), 0, -1):
        table = BufferTable()
        for buffer in totals.values():
            table.add(buffer.name, buffer.shape, 0, 0)
        table.add("class sums", (way, size), 0, 0)
        table.add("class counts", (way,), 0, 0)
        table.add("prototypes", (way, size), 0, 0)
        units = tuple(_scoring(table, externals, segments, f"probe, worker {k}") for k in range(workers))
        if layout := table.place(memory if workers > 1 else math.inf):
            break
    stages = _fisher_stages(table.buffers, units, tuple(totals.values()), task, start)
    purpose = CompileTarget(start, task, inspected=inspected)
    return Program(network, segments, table.buffers, layout, externals, {"fisher": units}, stages, purpose)


def _scoring(table: BufferTable, externals: dict[str, Buffer], segments, name: str) -> Unit:
    label = table.add(f"label ({name})", (1,), 0, 0, "int32")
    return replace(unit_of_one(table, externals, segments, name), label=label)


def _fisher_stages(buffers, units: tuple[Unit, ...], totals, task: TaskShape, start: int):
    sums, counts, prototypes = (buffers[n].whole for n in ("class sums", "class counts", "prototypes"))
    load = loaded(start)
    labelled = Call("labels_of", (Of.LABEL, Items.BATCH))
    lengths = Table(Role.CLASS_LENGTHS, (task.n_way,), "float64")
    clean = (
        load, Run("embed", Of.OUTPUT), labelled,
        Call("class_sums", (sums, counts, Of.OUTPUT, Of.LABEL)),
        Call("add_lengths", (lengths, Of.OUTPUT, Of.LABEL)),
    )  # fmt: skip
    shown = (
        load,
        labelled,
        Run("fisher", Of.OUTPUT),
        Call("add_loss", (Table(Role.LOSS, (1,), "float64"), Of.OUTPUT)),
    )
    cleared = (sums, counts, *(buffers[total.name].whole for total in totals))
    return (
        Stage(
            "prototypes", 0,
            (
                *(Call("clear", (view,)) for view in cleared),
                Repeat(Items.IMAGES, task.n_support, clean, units),
                Call("divide_rows", (prototypes, sums, counts)),
            ),
            part="probe",
        ),
        Stage(
            "fisher", 0,
            (Repeat(Items.SHOWN, task.n_support, shown, units),),
            part="probe",
        ),
    )  # fmt: skip
