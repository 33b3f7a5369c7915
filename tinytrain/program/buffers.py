"""Buffers of an adaptation: every array outside of segments, with the ticks that it lives through.

Buffers with disjoint lifetimes may share memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tinytrain.heads.head import ANSWERING, FITTING, STORED, UPDATING, HeadBuffer, HeadMethod
from tinytrain.heads.leave_one_out import COLUMNS as LEFT_OUT_COLUMNS
from tinytrain.heads.registry import BASELINE, find_head
from tinytrain.heads.triangle import packed_buffers
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import n_hard, n_sampled, n_unlabelled, single_pass
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.backend import BACKENDS
from tinytrain.program.calls import SHOWN, Buffer, Segment
from tinytrain.program.head_buffers import head_buffer, head_views, own_before, passes
from tinytrain.program.program import Book
from tinytrain.program.stages import Unit
from tinytrain.program.ticks import AFTER, BACKWARD, BEFORE, EMBED, FILL, PREDICT, RESULT
from tinytrain.program.trained_arrays import most_changed, slice_size, slots
from tinytrain.program.trained_buffers import trained_buffers

CACHED_AS = {"float32": "uint8", "uint8": "uint8", "int8": "int8"}  # features, by their dtype
ITEM_BYTES = 100  # of the lists of a step, for each image that it looks at
FEW_ITEMS = 100  # whose lists are no more than Python takes for other reasons
IMAGES, HEAD, CACHE = "images", "head", "cached features"


@dataclass(frozen=True, eq=False)
class Job:
    """What the buffers of a training run follow from."""

    network: Network
    recipe: Recipe
    resources: Resources
    task: TaskShape
    externals: dict[str, Buffer]
    start: int

    @property
    def trains(self) -> bool:
        return bool(self.recipe.updates)

    @property
    def alive(self) -> bool:
        """Whether the frozen part runs during training: not all features that it asks for are cached."""
        return n_unlabelled(self.recipe, self.resources, self.task) > 0 or self.resources.sets < 2

    @property
    def single_pass(self) -> bool:
        """Whether a step computes only the images that it back-propagates."""
        return self.trains and single_pass(self.recipe, self.resources)

    @property
    def hard(self) -> int:
        """Pseudo-queries that a step back-propagates."""
        r = self.resources
        return n_hard(self.recipe.options.hard_fraction, r.step_support, r.step_queries)

    @property
    def sampled(self) -> int:
        """Support images that a step back-propagates."""
        return n_sampled(self.recipe, self.resources.step_support, self.resources.step_queries)

    @property
    def shown(self) -> int:
        """Pseudo-queries and unlabelled images of one step."""
        return self.resources.step_queries + n_unlabelled(self.recipe, self.resources, self.task)

    def head_views(self, method: HeadMethod) -> range:
        """Views of every support image that a head of `method` is fitted to."""
        sizes = self.task.n_support, self.network.embedding_size
        return head_views(self.recipe, self.resources, method, *sizes)

    def head_form(self, method: HeadMethod) -> tuple[HeadBuffer, ...]:
        """The arrays of a head of `method`, fitted to its views of all support images."""
        embeddings = self.task.n_support * len(self.head_views(method))
        declared = method.buffers_for(self.task.n_way, self.network.embedding_size, embeddings)
        # In int8, where bytes are few, a matrix is its lower triangle.
        is_packed = self.recipe.precision == "int8" and method.packs
        return packed_buffers(declared, method.packs) if is_packed else declared


def add_buffers(book: Book, job: Job, segments: Iterable[Segment]) -> dict[str, tuple[Unit, ...]]:
    """Put all buffers of a training run into `book`; the units of its stages, by stage."""
    images = _image_buffers(book, job)
    workspaces = _workspaces(book, job, list(segments))
    _cache_buffers(book, job)
    units = _units(book, job, images, workspaces)
    _step_buffers(book, job)
    _reserve_heap(book, job)
    gradients = trained_buffers(book, job)
    _head_buffers(book, job)
    _result_buffers(book, job)
    backward = zip(units["backward"], gradients, strict=True)
    return units | {"backward": tuple(Unit(**(vars(u) | {"gradients": g})) for u, g in backward)}


def _image_buffers(book: Book, job: Job) -> dict[str, list[tuple[Buffer, Buffer]]]:
    """A decoded image and its augmented copy for each unit that runs the frozen part, by stage.

    In int8, where bytes are few, it is augmented out of what the decoder holds, and some rows at a time if
    there is a frozen part that asks for them.
    """
    shape, shown = job.externals["input"].shape, job.externals["input"].use == SHOWN

    def pair(unit: str, first: int, last: int) -> tuple[Buffer | None, Buffer | None]:
        def add(kind: str) -> Buffer:
            return book.add(f"{kind} ({unit})", shape, first, last, "uint8", IMAGES)

        copied = job.recipe.precision == "float32"
        return add("image") if copied else None, None if shown else add("augmented image")

    found = {"fill": [pair("fill", FILL, FILL)] if job.resources.sets else []}
    workers = range(job.resources.workers if job.alive else 0)
    found["workers"] = [pair(f"worker {k}", BEFORE, AFTER) for k in workers]
    found["queries"] = [pair("queries", PREDICT, PREDICT)]
    return found


def _workspaces(book: Book, job: Job, segments: list[Segment]) -> dict[str, list[Buffer]]:
    """Room for values inside of segments. The frozen part runs in the same bytes, before the rest."""

    def add(unit: str, first: int, last: int, *kinds: str) -> Buffer:
        size = max((s.nbytes for s in segments if s.kind in kinds), default=0)
        return book.add(f"workspace ({unit})", (size,), first, last, "uint8")

    r, found = job.resources, {"fill": [], "embed": [], "embed after": [], "backward": []}
    frozen = ("prefix",) if job.alive else ()
    if r.sets:
        found["fill"].append(add("fill", FILL, FILL, "prefix"))
    for k in range(r.workers):
        found["embed"].append(add(f"embedding, worker {k}", BEFORE, EMBED, "embed", *frozen))
        found["embed after"].append(add(f"head after, worker {k}", AFTER, AFTER, "embed", *frozen))
    for p in range(r.accumulators if job.trains else 0):
        kinds = ("backward", "forward", *frozen)
        found["backward"].append(add(f"backward, worker {p}", BACKWARD, BACKWARD, *kinds))
    return found | {"queries": [add("queries", PREDICT, PREDICT, "embed", "prefix")]}


def _cache_buffers(book: Book, job: Job) -> None:
    r, task, shape = job.resources, job.task, job.externals["features"].shape

    dtype = job.externals["features"].dtype

    def add(name: str, outer: tuple[int, ...], first: int, last: int) -> None:
        stored = CACHED_AS["float32" if name == "kept" else dtype]  # a replay memory has one form
        book.add(f"{name} features", (*outer, *shape), first, last, stored, CACHE)
        if dtype == "float32" or name == "kept":
            book.add(f"{name} feature ranges", (*outer, 2), first, last, use=CACHE)

    if r.sets and task.n_images:
        add("cached", (r.sets, task.n_images), FILL, AFTER)
    if task.n_remembered:
        add("remembered", (task.n_remembered,), FILL, AFTER)
    if task.replay:
        tick = AFTER if job.trains else BEFORE
        add("kept", (task.n_kept,), tick, PREDICT)
        book.add("embeddings to choose from", (task.n_support, job.network.embedding_size), tick, tick)


def _units(book: Book, job: Job, images, workspaces) -> dict[str, tuple[Unit, ...]]:
    features, grad, r = job.externals["features"], job.externals["grad embedding"], job.resources

    def room(unit: str, count: int, first: int, last: int) -> Buffer:
        return book.add(f"features ({unit})", (count, *features.shape), first, last, features.dtype)

    def pair(k: int) -> tuple:
        return images["workers"][k] if job.alive else (None, None)

    embed, after, backward = [], [], []
    for k in range(r.workers):
        rows = room(f"embedding, worker {k}", r.micro, BEFORE, EMBED)
        embed.append(Unit(workspaces["embed"][k], rows, *pair(k)))
        rows = room(f"head after, worker {k}", r.micro, AFTER, AFTER)
        after.append(Unit(workspaces["embed after"][k], rows, *pair(k)))
    queries = Unit(workspaces["queries"][0], room("queries", 1, PREDICT, PREDICT), *images["queries"][0])
    for p in range(r.accumulators if job.trains else 0):
        rows = room(f"backward, worker {p}", r.micro, BACKWARD, BACKWARD)
        g = book.add(f"embedding gradient (worker {p})", (r.micro, *grad.shape), BACKWARD, BACKWARD)
        backward.append(Unit(workspaces["backward"][p], rows, *pair(p), g))
    fill = tuple(Unit(w, None, *p) for w, p in zip(workspaces["fill"], images["fill"], strict=True))
    return {
        "fill": fill, "embed": tuple(embed), "embed after": tuple(after), "backward": tuple(backward),
        "queries": (queries,),
    }  # fmt: skip


def _step_buffers(book: Book, job: Job) -> None:
    size, r, task, way = job.network.embedding_size, job.resources, job.task, job.task.n_way
    book.add("embeddings of support", (r.step_support, size), BEFORE, AFTER)
    book.add("class sums", (way, size), BEFORE, AFTER)
    book.add("class counts", (way,), BEFORE, AFTER)
    book.add("prototypes", (way, size), BEFORE, AFTER)
    book.add("left out (before)", (task.n_support, LEFT_OUT_COLUMNS), BEFORE, PREDICT)
    if not job.trains:
        return
    book.add("left out (after)", (task.n_support, LEFT_OUT_COLUMNS), AFTER, PREDICT)
    book.add("labels", (max(r.step_support, job.shown),), EMBED, BACKWARD, "int32")
    if job.single_pass:
        book.add("latest losses", (task.n_support,), EMBED, BACKWARD)
        queries, longest, first = job.hard, max(job.hard, job.sampled), BACKWARD
    else:
        queries, longest, first = job.shown, max(r.step_support, job.shown), EMBED
    book.add("embeddings of queries", (queries, size), first, BACKWARD)
    book.add("gradient of embeddings", (longest, size), BACKWARD, BACKWARD)
    book.add("loss", (queries,), first, BACKWARD)
    book.add("residual", (queries, way), first, BACKWARD)
    book.add("cosine", (queries, way), first, BACKWARD)
    if job.recipe.step == "both":
        book.add("residual transposed", (way, queries), BACKWARD, BACKWARD)
        book.add("cosine transposed", (way, queries), BACKWARD, BACKWARD)
        book.add("gradient of prototypes", (way, size), BACKWARD, BACKWARD)


def _reserve_heap(book: Book, job: Job) -> None:
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
        book.add("beside the arena", (nbytes,), FILL, PREDICT, "uint8")


def _head_buffers(book: Book, job: Job) -> None:
    """Heads, which queries are predicted by, and the labels that three of them give."""
    recipe, task, trains = job.recipe, job.task, job.trains
    method, result = find_head(recipe.head), AFTER if trains else BEFORE

    def add(made_by: HeadMethod, head: str, tick: int, *lifetimes: str) -> None:
        kept = head == "head result"
        for b in job.head_form(made_by):
            name = head_buffer(b, head, tick, kept)
            if b.lifetime in lifetimes and name not in book.buffers:
                last = PREDICT if not passes(b, kept) else RESULT if kept else tick
                book.add(name, b.shape, RESULT if b.lifetime == STORED else tick, last, b.dtype, HEAD)

    if task.n_query:
        book.add("answers", (3, task.n_query), RESULT, PREDICT, "int32")
    add(BASELINE, "head before, cosine", BEFORE, ANSWERING)
    book.add("head before, cosine: lengths", (task.n_way,), BEFORE, PREDICT, use=HEAD)
    add(BASELINE, "head result", result, UPDATING)  # it may be what is kept in the end
    add(method, "head result", result, UPDATING)
    if trains or method is not BASELINE:
        add(method, "head result", result, ANSWERING)
    if method is BASELINE:
        return
    add(method, "head result", result, STORED)
    if trains and own_before(recipe, task):
        add(method, "head before", BEFORE, ANSWERING)
        add(method, "head before", BEFORE, FITTING, UPDATING)
    add(method, "head result", result, FITTING)


def _result_buffers(book: Book, job: Job) -> None:
    """New values of what was trained, with the numbers of their channels: the delta keeps them."""
    network, recipe = job.network, job.recipe
    epoch = -(-job.task.n_support // job.resources.step_queries)
    changed = most_changed(slots(network, recipe), network, recipe, epoch)
    if changed:
        itemsize = BACKENDS[recipe.precision].itemsize
        size = sum(slice_size(s, itemsize) for s in changed)
        book.add("result", (size,), RESULT, PREDICT)
