"""Ways to spend bytes on a recipe, in order of preference, and their programs, each compiled once."""

import math
from collections.abc import Iterator

from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.autodiff.emitter import BAND_BYTES
from tinytrain.program.compile import compile_probe, compile_training
from tinytrain.program.program import Program
from tinytrain.program.segments import SegmentBank

STEP_IMAGES = 50  # support images of one step when there are more of them
# (gradient accumulators, workers, images per call), fastest first.
WORKERS = ((2, 2, 5), (2, 2, 2), (2, 2, 1), (1, 2, 1), (1, 1, 2), (1, 1, 1))
LEAST_VIEWS = 3  # with fewer cached views, fresh ones are computed in every step
# Bytes of a row tile, largest first, if there is room for more than the usual one.
WIDE_TILES = (224_000, 112_000)
# The usual one, if there is room for other ways that take more bytes (`Emitter.roomy`).
ROW_TILES = (*WIDE_TILES, BAND_BYTES)


def step_sizes(task: TaskShape) -> tuple[int, ...]:
    """Support images of one step, preferred size first: all of them, or a subset with every class in it."""
    if task.n_support <= STEP_IMAGES:
        return (task.n_support,)
    return tuple(dict.fromkeys((max(STEP_IMAGES, task.n_way), task.n_way)))


def candidates(recipe: Recipe, task: TaskShape) -> Iterator[Resources]:
    """Resources in order of preference."""
    for size in step_sizes(task):
        for views in range(recipe.views, LEAST_VIEWS - 1, -1):
            for partitions, lanes, micro in WORKERS:
                yield Resources(1 + views, min(micro, size), partitions, size, size, lanes)
        for sets in (1, 0):
            for partitions in (2, 1):
                yield Resources(sets, 1, partitions, size, size)


def unreduced(recipe: Recipe, task: TaskShape) -> list[Resources]:
    """Those of `candidates` that cache all views and take all images into a step."""
    most = next(candidates(recipe, task))
    same = (most.sets, most.step_support)
    return [r for r in candidates(recipe, task) if (r.sets, r.step_support) == same]


def smallest(task: TaskShape) -> tuple[Resources, Resources]:
    """One worker, one image at a time, with nothing cached and with the least that is cached.

    Either can be the smaller one: without a cache the frozen part needs its workspace while training.
    """
    size = step_sizes(task)[-1]
    return Resources(0, 1, 1, size, size), Resources(1 + LEAST_VIEWS, 1, 1, size, size)


class Programs:
    """The programs of all candidates for one network and task."""

    def __init__(self, network: Network, task: TaskShape):
        self.network, self.task = network, task
        self._banks: dict[tuple, SegmentBank] = {}
        self._probes: dict[tuple, Program] = {}
        self._trainings: dict[tuple, Program | float] = {}  # or bytes that it is known not to fit

    def training(
        self, recipe: Recipe, resources: Resources, row_tile: int | None = None, limit: float = math.inf
    ) -> Program | None:
        """The program of one adaptation; None if it takes more than `limit` bytes."""
        key = recipe, resources, row_tile
        known = self._trainings.get(key)
        if known is None or (not isinstance(known, Program) and known < limit):
            bank = self._bank(recipe, row_tile)
            known = compile_training(self.network, recipe, resources, self.task, bank, limit) or limit
            self._trainings[key] = known
        return known if isinstance(known, Program) and known.nbytes <= limit else None

    def _bank(self, recipe: Recipe, row_tile: int | None) -> SegmentBank:
        key = recipe, row_tile
        if key not in self._banks:
            self._banks[key] = SegmentBank(self.network, recipe, row_tile)
        return self._banks[key]

    def probe(self, inspected: tuple[int, ...], row_tile: int | None = None) -> Program:
        """The program that measures the layers `inspected`."""
        key = inspected, row_tile
        if key not in self._probes:
            self._probes[key] = compile_probe(self.network, inspected, self.task, row_tile)
        return self._probes[key]

    def clear(self) -> None:
        """Forget all of them."""
        for made in (self._banks, self._probes, self._trainings):
            made.clear()
