"""Buffers of an adaptation: every array outside of segments, with the ticks that it lives through.

Buffers with disjoint lifetimes may share memory.
"""

from collections.abc import Iterable

from tinytrain.heads.head import ANSWERING, FITTING, UPDATING, HeadMethod
from tinytrain.heads.leave_one_out import COLUMNS as LEFT_OUT_COLUMNS
from tinytrain.heads.registry import BASELINE, find_head
from tinytrain.plan.costs import n_unlabelled
from tinytrain.program.calls import AFTER, BACKWARD, BEFORE, EMBED, FILL, PREDICT, RESULT, Role, Segment
from tinytrain.program.head_buffers import head_buffer, own_before, passes
from tinytrain.program.job import Job
from tinytrain.program.program import BufferTable
from tinytrain.program.segments import Size
from tinytrain.program.stages import Unit
from tinytrain.program.trained_arrays import most_changed, slice_size, slots
from tinytrain.program.trained_buffers import trained_buffers
from tinytrain.program.unit_buffers import add_units

CACHED_AS = {"float32": "uint8", "uint8": "uint8", "int8": "int8"}  # features, by their dtype
ITEM_BYTES = 100  # of the lists of a step, for each image that it looks at
FEW_ITEMS = 100  # up to so many, the lists of a step are negligible


def add_buffers(
    table: BufferTable, job: Job, segments: Iterable[Segment | Size]
) -> dict[str, tuple[Unit, ...]]:
    """Put all buffers of a training run into `table`; the units of its stages, by stage."""
    units = add_units(table, job, list(segments))
    _cache_buffers(table, job)
    _step_buffers(table, job)
    _reserve_heap(table, job)
    trained_buffers(table, job)
    _head_buffers(table, job)
    _result_buffers(table, job)
    return units


def _cache_buffers(table: BufferTable, job: Job) -> None:
    r, task, features = job.resources, job.task, job.externals["features"]

    def add(name: str, outer: tuple[int, ...], first: int, last: int) -> None:
        stored = CACHED_AS["float32" if name == "kept" else features.dtype]  # a replay memory has one form
        role = Role.KEPT_FEATURES if name == "kept" else Role.CACHE
        table.add(f"{name} features", (*outer, *features.shape), first, last, stored, role)
        if features.dtype == "float32" or name == "kept":
            table.add(f"{name} feature ranges", (*outer, 2), first, last, role=role)

    if r.sets and task.n_images:
        add("cached", (r.sets, task.n_images), FILL, AFTER)
    if task.n_remembered:
        add("remembered", (task.n_remembered,), FILL, AFTER)
    if task.replay:
        tick = AFTER if job.trains else BEFORE
        add("kept", (task.n_kept,), tick, PREDICT)
        table.add("embeddings to choose from", (task.n_support, job.network.embedding_size), tick, tick)


def _step_buffers(table: BufferTable, job: Job) -> None:
    size, r, task, way = job.network.embedding_size, job.resources, job.task, job.task.n_way
    table.add("embeddings of support", (r.step_support, size), BEFORE, AFTER)
    table.add("class sums", (way, size), BEFORE, AFTER, role=Role.CLASS_SUMS)
    table.add("class counts", (way,), BEFORE, AFTER, role=Role.CLASS_SUMS)
    table.add("prototypes", (way, size), BEFORE, AFTER)
    left_out = task.n_support, LEFT_OUT_COLUMNS
    table.add("left out (before)", left_out, BEFORE, PREDICT, role=Role.LEFT_OUT_BEFORE)
    if not job.trains:
        return
    table.add("left out (after)", left_out, AFTER, PREDICT, role=Role.LEFT_OUT_AFTER)
    table.add("labels", (max(r.step_support, job.shown),), EMBED, BACKWARD, "int32")
    if job.single_pass:
        table.add("latest losses", (task.n_support,), EMBED, BACKWARD)
        queries, longest, first = job.hard, max(job.hard, job.sampled), BACKWARD
    else:
        queries, longest, first = job.shown, max(r.step_support, job.shown), EMBED
    table.add("embeddings of queries", (queries, size), first, BACKWARD)
    table.add("gradient of embeddings", (longest, size), BACKWARD, BACKWARD)
    table.add("loss", (queries,), first, BACKWARD)
    table.add("residual", (queries, way), first, BACKWARD)
    table.add("cosine", (queries, way), first, BACKWARD)
    if job.recipe.step == "both":
        table.add("residual transposed", (way, queries), BACKWARD, BACKWARD)
        table.add("cosine transposed", (way, queries), BACKWARD, BACKWARD)
        table.add("gradient of prototypes", (way, size), BACKWARD, BACKWARD)


def _reserve_heap(table: BufferTable, job: Job) -> None:
    """Bytes for what numpy and Python take beside the arena. Nothing is ever put here: no page is touched.

    That is the order of the support images, four such arrays while a step draws some of them, one of the
    query images that it looks at, and the lists of a step.
    """
    r, task, recipe = job.resources, job.task, job.recipe
    drawn, items = 0, r.step_support + job.shown
    if task.n_support > r.step_queries:
        drawn += (5 if recipe.updates else 3) * task.n_support
    if n_unlabelled(recipe, r, task):
        drawn += task.n_query
    nbytes = 8 * drawn + (ITEM_BYTES * items if items > FEW_ITEMS else 0)
    if nbytes:
        table.add("beside the arena", (nbytes,), FILL, PREDICT, "uint8", Role.OUTSIDE)


def _head_buffers(table: BufferTable, job: Job) -> None:
    """Heads, which queries are predicted by, and the labels that three of them give."""
    recipe, task, trains = job.recipe, job.task, job.trains
    method, result = find_head(recipe.head), AFTER if trains else BEFORE

    def add(made_by: HeadMethod, head: str, tick: int, *lifetimes: str) -> None:
        kept = head == "head result"
        for b in job.head_form(made_by):
            name = head_buffer(b, head, tick, kept)
            if b.lifetime in lifetimes and name not in table.buffers:
                last = PREDICT if not passes(b, kept) else RESULT if kept else tick
                table.add(name, b.shape, tick, last, b.dtype, Role.HEAD)

    if task.n_query:
        table.add("answers", (3, task.n_query), RESULT, PREDICT, "int32")
    add(BASELINE, "head before, cosine", BEFORE, ANSWERING)
    table.add("head before, cosine: lengths", (task.n_way,), BEFORE, PREDICT, role=Role.LENGTHS)
    add(BASELINE, "head result", result, UPDATING)  # it may be what is kept in the end
    add(method, "head result", result, UPDATING)
    if trains or method is not BASELINE:
        add(method, "head result", result, ANSWERING)
    if method is BASELINE:
        return
    if trains and own_before(recipe, task):
        add(method, "head before", BEFORE, ANSWERING)
        add(method, "head before", BEFORE, FITTING, UPDATING)
    add(method, "head result", result, FITTING)


def _result_buffers(table: BufferTable, job: Job) -> None:
    """New values of what was trained, with the numbers of their channels: the delta keeps them."""
    network, recipe = job.network, job.recipe
    epoch = -(-job.task.n_support // job.resources.step_queries)
    changed = most_changed(slots(network, recipe), network, recipe, epoch)
    if changed:
        size = sum(slice_size(s, job.backend.itemsize) for s in changed)
        table.add("result", (size,), RESULT, PREDICT, role=Role.RESULT)
