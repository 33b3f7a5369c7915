"""From a network, a recipe and resources to Programs: segments, buffers, and one layout in bytes.

A training run passes through seven ticks, of which EMBED and BACKWARD take turns in every step; a
buffer may use the bytes of another whose ticks it does not share. All work of one lane at one tick
happens in that lane's workspace.
"""

import math

from tinytrain.heads.leave_one_out import COLUMNS as LEFT_OUT_COLUMNS
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import n_hard, n_through, n_trained, n_unlabelled
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.calls import Buffer
from tinytrain.program.program import Program, _Book
from tinytrain.program.segments import SegmentBank, embed_segment, externals_of, prefix_segment, tap_segment
from tinytrain.program.trained_arrays import most_changed, slots

FILL, BEFORE, EMBED, BACKWARD, AFTER, RESULT, PREDICT = range(7)
OPTIMIZER_STATES = {"sgd": 0, "momentum": 1, "adam": 2}  # bfloat16 moments per trained number
OPTIMIZER_BLOCK = 1024
ITEM_BYTES = 100  # of the lists of a step, for each image that it looks at
FEW_ITEMS = 100  # whose lists are no more than Python takes for other reasons


def _tails(count: int, micro: int) -> set[int]:
    """Sizes of the micro-batches of `count` images."""
    return {min(micro, count), count % micro or micro} if count else set()


def compile_training(
    network: Network,
    recipe: Recipe,
    resources: Resources,
    task: TaskShape,
    bank: SegmentBank | None = None,
    limit: float = math.inf,
) -> Program | None:
    """The program of one adaptation: fill the cache, fit a head, train, fit a head again, predict.

    None where it takes more than `limit` bytes. A `bank` of the same network and recipe saves emitting the
    same segments for other resources.
    """
    r, bank = resources, bank or SegmentBank(network, recipe)
    network = bank.network
    names = [] if bank.start == 0 else ["prefix"]
    unlabelled = n_unlabelled(recipe, r, task)
    counts = {1} | _tails(r.step_support, r.micro) | _tails(r.step_queries + unlabelled, r.micro)
    # Heads see all images, a step's worth at a time.
    counts |= _tails(task.n_support % r.step_support, r.micro)
    names += [f"embed {n}" for n in sorted(counts)]
    names += [f"backward {n}" for n in sorted(_backward_counts(recipe, r, unlabelled))]
    segments = {name: bank.get(name) for name in names}
    book = _Book()
    alive = unlabelled > 0 or not cached_whole(r)  # the frozen part, while training runs
    _image_buffers(book, bank.externals["input"].shape, r, alive)
    _workspaces(book, segments, r, bool(recipe.updates), alive)
    _cache_buffers(book, bank.externals["features"], r, task, bank.start)
    _lane_buffers(book, bank.externals, r, bool(recipe.updates))
    _step_buffers(book, network, r, task, recipe)
    _reserve_heap(book, r, task, recipe)
    _trained_buffers(book, recipe, r, n_trained(network, recipe.updates))
    _head_buffers(book, network, recipe, task)
    _result_buffers(book, network, recipe, r, task)
    program = book.finish(network, segments, bank.externals, limit)
    if program is None:
        return None
    program.detail.update(start=bank.start, cut=bank.cut, recipe=recipe, resources=r, task=task)
    return program


def partition(count: int, partitions: int, micro: int) -> list[list[tuple[int, int]]]:
    """For each partition its micro-batches, as (first, last) positions in a list of `count` images.

    Depends on the plan alone, never on the number of lanes that will run.
    """
    batches = [(a, min(a + micro, count)) for a in range(0, count, micro)]
    share = -(-len(batches) // partitions)
    return [batches[p * share : (p + 1) * share] for p in range(partitions)]


def _backward_counts(recipe: Recipe, r: Resources, unlabelled: int) -> set[int]:
    if not recipe.updates:
        return set()
    counts = _tails(n_hard(recipe.options.hard_fraction, r.step_queries) + unlabelled, r.micro)
    return counts | _tails(n_through(recipe, r.step_support), r.micro)


def _image_buffers(book, shape, r: Resources, alive: bool) -> None:
    """A decoded image and its augmented copy, wherever the frozen part runs."""
    units = [("fill", FILL, FILL)] if r.sets else []
    if alive:
        units += [(f"lane {k}", BEFORE, AFTER) for k in range(r.lanes)]
    for unit, first, last in [*units, ("queries", PREDICT, PREDICT)]:
        book.add(f"image ({unit})", shape, first, last, "uint8")
        book.add(f"augmented image ({unit})", shape, first, last, "uint8")


def cached_whole(r: Resources) -> bool:
    """True if every set of features that training asks for is cached, so that no prefix runs meanwhile."""
    return r.sets >= 2


def _cache_buffers(book, features: Buffer, r: Resources, task: TaskShape, start: int) -> None:
    if r.sets:
        book.add("cached features", (r.sets, task.n_support, *features.shape), FILL, AFTER, "uint8")
        if start > 0:
            book.add("cached feature ranges", (r.sets, task.n_support, 2), FILL, AFTER)


def _workspaces(book, segments, r: Resources, trains: bool, alive: bool) -> None:
    """Room for inner values. The frozen part runs in the same bytes, before the rest: it leaves features."""

    def size(*kinds: str) -> int:
        return max((s.nbytes for name, s in segments.items() if name.split()[0] in kinds), default=0)

    def add(unit: str, first: int, last: int, *kinds: str) -> None:
        book.add(f"workspace ({unit})", (size(*kinds),), first, last, "uint8")

    frozen = ("prefix",) if alive else ()
    if r.sets:
        add("fill", FILL, FILL, "prefix")
    for k in range(r.lanes):
        add(f"embedding, lane {k}", BEFORE, EMBED, "embed", *frozen)
        add(f"head after, lane {k}", AFTER, AFTER, "embed", *frozen)
    for p in range(r.partitions if trains else 0):
        add(f"backward, lane {p}", BACKWARD, BACKWARD, "backward", *frozen)
    add("queries", PREDICT, PREDICT, "embed", "prefix")


def _lane_buffers(book, externals, r: Resources, trains: bool) -> None:
    features, grad = externals["features"], externals["grad embedding"]

    def add(place: str, count: int, first: int, last: int) -> None:
        book.add(f"features ({place})", (count, *features.shape), first, last, features.dtype)

    for k in range(r.lanes):
        add(f"embedding, lane {k}", r.micro, BEFORE, EMBED)
        add(f"head after, lane {k}", r.micro, AFTER, AFTER)
    add("queries", 1, PREDICT, PREDICT)
    for p in range(r.partitions if trains else 0):
        add(f"backward, lane {p}", r.micro, BACKWARD, BACKWARD)
        book.add(f"embedding gradient (lane {p})", (r.micro, *grad.shape), BACKWARD, BACKWARD)


def _step_buffers(book, network, r: Resources, task: TaskShape, recipe: Recipe) -> None:
    size, way = network.embedding_size, task.n_way
    queries = r.step_queries + n_unlabelled(recipe, r, task)
    longest = max(r.step_support, queries)
    book.add("embeddings of support", (r.step_support, size), BEFORE, AFTER)
    book.add("class sums", (way, size), BEFORE, AFTER)
    book.add("class counts", (way,), BEFORE, AFTER)
    book.add("prototypes", (way, size), BEFORE, AFTER)
    book.add("left out (before)", (task.n_support, LEFT_OUT_COLUMNS), BEFORE, PREDICT)
    if not recipe.updates:
        return
    book.add("left out (after)", (task.n_support, LEFT_OUT_COLUMNS), AFTER, PREDICT)
    book.add("embeddings of queries", (queries, size), EMBED, BACKWARD)
    book.add("gradient of embeddings", (longest, size), BACKWARD, BACKWARD)
    book.add("labels", (longest,), EMBED, BACKWARD, "int32")
    book.add("loss", (queries,), EMBED, BACKWARD)
    book.add("residual", (queries, way), EMBED, BACKWARD)
    book.add("cosine", (queries, way), EMBED, BACKWARD)
    if recipe.step == "both":
        book.add("residual transposed", (way, queries), BACKWARD, BACKWARD)
        book.add("cosine transposed", (way, queries), BACKWARD, BACKWARD)
        book.add("gradient of prototypes", (way, size), BACKWARD, BACKWARD)


def _reserve_heap(book, r: Resources, task: TaskShape, recipe: Recipe) -> None:
    """Bytes for what numpy and Python take beside the arena. Nothing is ever put here: no page is touched.

    That is the order of the support images, four such arrays while a step draws some of them and one of
    the query images that it looks at, and the lists of a step.
    """
    unlabelled = n_unlabelled(recipe, r, task)
    drawn, items = 0, r.step_support + r.step_queries + unlabelled
    if task.n_support > r.step_support:
        drawn += (5 if recipe.updates else 3) * task.n_support
    if unlabelled:
        drawn += task.n_query
    nbytes = 8 * drawn + (ITEM_BYTES * items if items > FEW_ITEMS else 0)
    if nbytes:
        book.add("beside the arena", (nbytes,), FILL, PREDICT, "uint8")


def _trained_buffers(book, recipe: Recipe, r: Resources, trained: int) -> None:
    if not trained:
        return
    book.add("trained numbers", (trained,), EMBED, AFTER)
    for p in range(r.partitions):
        book.add(f"gradients (lane {p})", (trained,), BACKWARD, BACKWARD)
    states = OPTIMIZER_STATES[recipe.optimizer]
    for k in range(states):
        book.add(f"optimizer state {k}", (trained,), EMBED, BACKWARD, "uint16")
    if states:
        book.add("optimizer workspace", (states * min(OPTIMIZER_BLOCK, trained),), BACKWARD, BACKWARD)


def _head_buffers(book, network, recipe: Recipe, task: TaskShape) -> None:
    """Heads, which queries are predicted by, and the labels that three of them give."""
    way, size, trains = task.n_way, network.embedding_size, bool(recipe.updates)

    def add(head: str, first: int) -> None:
        book.add(f"{head}: weights", (way, size), first, PREDICT)
        book.add(f"{head}: offsets", (way,), first, PREDICT)

    result = AFTER if trains else BEFORE
    if task.n_query:
        book.add("answers", (3, task.n_query), RESULT, PREDICT, "int32")
    add("head before, cosine", BEFORE)
    book.add("head before, cosine: lengths", (way,), BEFORE, PREDICT)
    book.add("head result: means", (way, size), result, PREDICT)
    if trains or recipe.head == "lda":
        add("head result", result)
    if recipe.head != "lda":
        return
    book.add("head result: factor", (size * (size + 1) // 2,), RESULT, PREDICT)
    if own_before(recipe, task):
        if trains:
            add("head before", BEFORE)
        book.add(f"scatter matrix ({BEFORE})", (size, size), BEFORE, BEFORE if trains else RESULT)
    if trains:
        book.add(f"scatter matrix ({AFTER})", (size, size), AFTER, RESULT)


def own_before(recipe: Recipe, task: TaskShape) -> bool:
    """Whether the recipe's head is fitted to the network as it is: to predict queries by, or to be kept."""
    return not recipe.updates or task.n_query > 0


def _result_buffers(book, network, recipe: Recipe, r: Resources, task: TaskShape) -> None:
    """New values of what was trained, with the numbers of their channels: the delta keeps them."""
    changed = most_changed(slots(network, recipe), network, recipe, -(-task.n_support // r.step_support))
    if changed:
        book.add(
            "result", (sum(s.size + len(s.channels) + len(s.inputs or ()) for s in changed),), RESULT, PREDICT
        )


def compile_probe(
    network: Network, inspected: tuple[int, ...], task: TaskShape, band: int | None = None
) -> Program:
    """The program of the probe: prototypes, then one backward pass per image, tapping inspected layers.

    Blocks are computed again just before their backward pass, so that only one block's inner
    values are ever alive beside the inputs of the blocks.
    """
    start = network.block_start(min(inspected))
    externals = externals_of(network, start, 0)
    size, way = network.embedding_size, task.n_way
    for i in inspected:
        externals[f"fisher {i}"] = Buffer(f"fisher {i}", (network.layers[i].cout,))
    externals["prototypes"] = Buffer("prototypes", (way, size))
    externals["label"] = Buffer("label", (1,), "int32")
    segments = {} if start == 0 else {"prefix": prefix_segment(network, start, externals, band)}
    segments["embed 1"] = embed_segment(network, start, 1, externals)
    segments["tap"] = tap_segment(network, start, inspected, way, externals)
    book = _Book()
    image = externals["input"].shape
    book.add("image (probe)", image, 0, 0, "uint8")
    book.add("augmented image (probe)", image, 0, 0, "uint8")
    work = max(s.nbytes for s in segments.values())
    features = externals["features"]
    book.add("features (probe)", (1, *features.shape), 0, 0, features.dtype)
    book.add("workspace (probe)", (work,), 0, 0, "uint8")
    for i in inspected:
        book.add(f"fisher {i}", externals[f"fisher {i}"].shape, 0, 0)
    book.add("class sums", (way, size), 0, 0)
    book.add("class counts", (way,), 0, 0)
    book.add("prototypes", (way, size), 0, 0)
    book.add("label", (1,), 0, 0, "int32")
    program = book.finish(network, segments, externals)
    program.detail.update(start=start, inspected=inspected, task=task)
    return program
