"""Ways to spend bytes on a recipe, smaller selections, and their programs, each compiled once."""

import math
from collections.abc import Iterator
from dataclasses import replace

from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.plan.scores import Scores
from tinytrain.policies.common import FRACTIONS
from tinytrain.program.autodiff.emitter import ROW_TILE_BYTES
from tinytrain.program.backends.registry import find_backend
from tinytrain.program.compile import compile_fisher, compile_training, training_bytes
from tinytrain.program.program import Program
from tinytrain.program.segments import SegmentBank

IMAGES_OF_CLASS = 2  # in a small step where bytes are few: the fewer embeddings, the more can be trained
STEP_IMAGES = 50  # support images of one step when there are more of them
# By the number of workers, images per call: fastest first.
MICRO = {2: (5, 2, 1), 1: (2, 1)}
BANKS = 3  # so many recipes are remembered with the sizes of their segments
LARGE = 3  # of the fractions of a selection are tried before the shallowest layer is left out
LEAST_VIEWS = 3  # with fewer cached views, fresh ones are computed in every step
# Bytes of a row tile, largest first, if there is room for more than the usual one.
WIDE_TILES = (224_000, 112_000)
# The usual one, if there is memory for the fast paths, which take more bytes (`Emitter.fast_path`).
ROW_TILES = (*WIDE_TILES, ROW_TILE_BYTES)


def step_sizes(task: TaskShape, is_tight: bool = False) -> tuple[int, ...]:
    """Support images of one step, preferred size first: all of them, or a subset with every class in it."""
    if task.n_support <= STEP_IMAGES:
        few = min(task.n_support, IMAGES_OF_CLASS * task.n_way)
        return tuple(dict.fromkeys((task.n_support, few))) if is_tight else (task.n_support,)
    return tuple(dict.fromkeys((max(STEP_IMAGES, task.n_way), task.n_way)))


def candidates(recipe: Recipe, task: TaskShape) -> Iterator[Resources]:
    """Resources in order of preference."""
    every = list(_candidates(recipe, task))
    yield from every
    if find_backend(recipe.precision).is_tight:
        yield from (replace(r, small_head=True) for r in every)


def _candidates(recipe: Recipe, task: TaskShape) -> Iterator[Resources]:
    for size in step_sizes(task, find_backend(recipe.precision).is_tight):
        images = size, size
        # Views that are cached beyond the first few matter less than a second worker.
        for workers, ways in MICRO.items():
            for views in () if recipe.fresh else range(recipe.views, LEAST_VIEWS - 1, -1):
                for micro in ways:
                    yield Resources(1 + views, min(micro, size), *images, workers)
        for sets in (1,) if task.replay else (1, 0):
            for workers in MICRO:
                yield Resources(sets, 1, *images, workers)


def unreduced(recipe: Recipe, task: TaskShape) -> list[Resources]:
    """Those of `candidates` that cache all views, take all images into a step, and have two workers."""

    def kept(r: Resources) -> tuple[int, ...]:
        return r.sets, r.step_support, r.workers

    every = list(candidates(recipe, task))
    return [r for r in every if kept(r) == kept(every[0])]


def smallest(recipe: Recipe, task: TaskShape) -> tuple[Resources, Resources]:
    """One worker, one image at a time, with nothing cached and with the least that is cached.

    Either can be the smaller one: without a cache the frozen part needs its workspace while training.
    """
    small = find_backend(recipe.precision).is_tight
    images = (step_sizes(task, small)[-1],) * 2
    least = 1 if task.replay else 0  # what is kept is taken from the cache
    return tuple(Resources(sets, 1, *images, small_head=small) for sets in (least, 1 + LEAST_VIEWS))


def retreats(scores: Scores | None, shrinks: bool, is_tight: bool) -> Iterator[tuple[float, Scores | None]]:
    """Fractions of the policy's selection, with the scores of the layers that it may choose from.

    Where bytes are few (`is_tight`), the gradients of shallow layers take more of them than what is trained.
    So deeper ones are tried before the selection becomes small.
    """
    if not shrinks:
        yield 1.0, scores
        return
    layers = sorted(scores.fisher) if scores and is_tight else []
    for skipped in range(len(layers) - 1):
        kept = scores.without_shallowest(skipped)
        yield from ((fraction, kept) for fraction in FRACTIONS[:LARGE])
    if layers:
        scores = scores.without_shallowest(len(layers) - 1)
    yield from ((fraction, scores) for fraction in FRACTIONS)


class Programs:
    """Sizes of all candidates for one network and task.

    Every candidate is placed once; its segments and stages are kept if it is chosen.
    """

    def __init__(self, network: Network, task: TaskShape):
        self.network, self.task = network, task
        self._sizes: dict[tuple, int] = {}
        self._above: dict[tuple, float] = {}  # bytes that a candidate is known not to fit
        self._banks: list[SegmentBank] = []  # the last one first; of earlier ones a part is used again
        self._probes: dict[tuple, Program] = {}  # the last one

    def nbytes(
        self, recipe: Recipe, resources: Resources, row_tile: int | None = None, limit: float = math.inf
    ) -> int | None:
        """Bytes of the arena of one adaptation; None if it takes more than `limit`."""
        key = recipe, resources, row_tile
        # One image at a time takes the least: if that is too much, no more need be emitted.
        least = replace(resources, micro=1)
        if limit < math.inf and least != resources and self.nbytes(recipe, least, row_tile, limit) is None:
            return None
        if key not in self._sizes and self._above.get(key, -1) < limit:
            size = training_bytes(self._segments(recipe, row_tile), resources, self.task, limit)
            if size is None:
                self._above[key] = limit
            else:
                self._sizes[key] = size
        size = self._sizes.get(key, math.inf)
        return size if size <= limit else None

    def training(self, recipe: Recipe, resources: Resources, row_tile: int | None = None) -> Program:
        """The program of one adaptation."""
        bank = self._segments(recipe, row_tile)
        del self._banks[1:]
        return compile_training(self.network, recipe, resources, self.task, bank)

    def replay_bytes(self, recipe: Recipe) -> int:
        """Bytes of the features that a recipe keeps for later."""
        return self.task.n_kept * math.prod(self._segments(recipe, None).externals["features"].shape)

    def _segments(self, recipe: Recipe, row_tile: int | None) -> SegmentBank:
        found = next((b for b in self._banks if (b.recipe, b.row_tile) == (recipe, row_tile)), None)
        found = found or SegmentBank(self.network, recipe, row_tile, others=self._banks)
        self._banks = [found, *(bank for bank in self._banks if bank is not found)][:BANKS]
        return found

    def probe(
        self, inspected: tuple[int, ...], precision: str, row_tile: int | None = None, memory: int = 0
    ) -> Program:
        """The program that measures the layers `inspected`, with the workers that fit into `memory` bytes."""
        key = inspected, row_tile, precision, memory
        if key not in self._probes:
            self._probes.clear()  # before the next one is made: two of them take memory beside the arena
            self._probes[key] = compile_fisher(self.network, inspected, self.task, *key[1:])
        return self._probes[key]

    def forget_probe(self) -> None:
        """It has run: its memory is free for what is planned next."""
        self._probes.clear()

    def forget(self) -> None:
        """Give back the memory of all that was compiled, but remember the sizes."""
        self._probes.clear()
        self._banks.clear()
