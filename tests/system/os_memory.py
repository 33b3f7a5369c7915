"""One adaptation in a fresh process, seen by the operating system; prints one JSON object.

Arguments: JSON with `network` (a file or a name), `policy` (a name, or FILE.py:NAME), `shots` (how many
images of each class), `queries`, `budget` (the smallest is taken if it is null or less), `macs`, `precision`,
`lanes`, `leak` (bytes of heap that are taken in the middle of training and kept, to see that the check sees
them), `hard` (whether the system refuses any memory beyond the baseline, the budget and 1 MB) and `whole`
(whether a whole second call is measured instead, from planning to the report).

What happens before the baseline is outside the budget: images decoded, network loaded, plan
made and bound, kernels warmed with the plan's own shapes on every worker at the same time
in an anonymous mapping that is unmapped again; freed heap goes back to the system, so that nothing
the adaptation takes from it can hide.
"""

import ctypes
import gc
import json
import mmap
import os
import resource
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tinytrain.backbones.load import load_backbone
from tinytrain.base.arena import Arena
from tinytrain.base.errors import BudgetError
from tinytrain.episode.episode import Episode, Images
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.warmup import warm_up
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.policies.own import given_policy
from tinytrain.program.backends.working_copy import working_copy
from tinytrain.runtime import fisher as scoring
from tinytrain.runtime.adaptation import Run
from tinytrain.runtime.bind import run
from tinytrain.runtime.device import Device
from tinytrain.runtime.stage_runner import Source
from tinytrain.runtime.trainer import Trainer

HARD_SLACK = 10**6
REPEATS = 5  # of every segment while warming


STATUS = os.open("/proc/self/status", os.O_RDONLY)


def status(name: bytes) -> int:
    """Bytes of a line, read without buffers that would count themselves."""
    text = os.pread(STATUS, 4096, 0)
    return int(text[text.index(name) + len(name) :].split(None, 1)[0]) * 1024


def decoded_episode(size: int, shots: list[int], queries: int) -> Episode:
    """So many shots of each class, images in memory: enlarged noise, 400 different ones."""
    count = sum(shots) + queries
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.repeat(np.arange(len(shots)), shots), rng.integers(0, len(shots), queries)])
    tiles = rng.integers(0, 256, (min(count, 400), 8, 8, 3), dtype=np.uint8)
    images = tiles.repeat(size // 8, axis=1).repeat(size // 8, axis=2)
    every = Images(
        labels.astype(np.int32), tuple(map(str, range(count))), lambda i, size: images[i % len(images)]
    )
    names = tuple(f"class {k}" for k in range(len(shots)))
    return Episode(every.take(range(sum(shots))), every.take(range(sum(shots), count)), names)


def smallest(network, policy, limits: Budget, shape: TaskShape) -> int:
    """The smallest budget that a refusal names, before anything was measured; a byte less is refused, too."""
    refused, least = -1, 1
    while refused != least - 1:
        refused = least - 1
        try:
            Planner(network, shape, policy, replace(limits, memory=refused)).probe()
        except BudgetError as error:
            least = error.smallest
        else:
            raise AssertionError(f"{refused} bytes are not refused")
    return least


def growth_of_probe(run: Run, program) -> int:
    """Bytes that measuring takes beside what was bound before, done for the second time."""
    peaks = []

    class Watched(scoring._Scoring):
        def __init__(self, bind, source, threads):
            super().__init__(bind, source, threads)
            bind.arena.release([])  # all of it is zero
            peaks.append(Peak())

    scoring._Scoring, runner = Watched, scoring._Scoring
    for _ in range(2 if program else 0):
        run.measure_fisher(program)
        peaks[-1].look()
    scoring._Scoring = runner
    return peaks[-1].growth if peaks else 0


def warm(bound: Trainer) -> None:
    """Every segment of the plan on every worker of `bound` at the same time, in a mapping of its own."""
    program = bound.program
    trainer = Trainer(
        program, Arena(program.nbytes), working_copy(program), bound.kernels,
        Source(bound.source.read, lambda view, i: None, bound.labels), bound.workers,
    )  # fmt: skip
    trainer.run("cache")
    for stage in filter(
        program.units.__contains__, ("embed", "backward")
    ):  # a head alone has no backward pass
        units = trainer.bound_of(program.units[stage])
        for unit in units if program.precision == "int8" else ():  # segments ask for rows of an image
            unit.show(bound.source.read(0))
        warm_lanes(units, trainer.others)


def warm_lanes(workers, others) -> None:
    meet = threading.Barrier(len(workers))

    def work(lane):
        for calls, _ in lane.segments.values():
            for _ in range(REPEATS):
                meet.wait()
                run(calls)

    others.run([partial(work, lane) for lane in workers])


def refuse_more_than(nbytes: int) -> None:
    """From now on the system refuses this process any memory beyond what it has and `nbytes`."""
    for limit, line in ((resource.RLIMIT_DATA, b"VmData:"), (resource.RLIMIT_AS, b"VmSize:")):
        resource.setrlimit(limit, (status(line) + nbytes,) * 2)


def add_up_pages() -> None:
    """Bring the kernel's estimate of the present size near to what it is.

    It counts pages on each core by itself and adds them up where 32 or more come or go at once.
    """
    cores = os.sched_getaffinity(0)
    for core in cores:
        os.sched_setaffinity(0, {core})
        with open(np._core._multiarray_umath.__file__, "rb") as library:
            mmap.mmap(library.fileno(), 0, mmap.MAP_PRIVATE | mmap.MAP_POPULATE, mmap.PROT_READ).close()
        mmap.mmap(-1, 2**21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
    os.sched_setaffinity(0, cores)


class Peak:
    """The highest VmHWM seen since the baseline; asked often, because a release of pages may blur it."""

    def __init__(self):
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        for _ in range(20):
            Path("/proc/self/clear_refs").write_text("5")
            # VmRSS is exact. VmHWM starts from an estimate, and what that is above would count as growth.
            self.baseline, self.growth = status(b"VmRSS:"), 0
            if status(b"VmHWM:") <= self.baseline:
                break
            add_up_pages()

    def look(self, *_) -> None:
        self.growth = max(self.growth, status(b"VmHWM:") - self.baseline)


class Measured(Exception):  # noqa: N818 - no error
    """What is measured is over; the report that comes then is no part of it."""


class WatchedRun(Run):
    """Watches memory from the moment that the plan is bound and warm."""

    def load(self, program) -> None:
        device, budget = self.device, self.device.budget
        planner = Planner(self.network, program.task, device.policy, budget)
        device.found["probe"] = growth_of_probe(self, planner.probe())
        super().load(program)
        warm(self.trainer)
        r = program.resources
        device.found |= {"arena": program.nbytes, "lanes": r.workers, "sets": r.sets}
        device.peak = Peak()
        if device.task["hard"]:
            # The arena is among what it has.
            refuse_more_than(budget.memory - program.nbytes + HARD_SLACK)

    def release(self, tick) -> None:
        self.device.peak.look()
        super().release(tick)

    def keep(self, delta, accepted):
        kept = super().keep(delta, accepted)
        self.device.peak.look()
        self.device.found["growth"] = self.device.peak.growth
        raise Measured(kept)


class WatchedDevice(Device):
    """This computer, with what is found out about an adaptation of `task` on it."""

    def __init__(self, task: dict, policy, budget: Budget):
        super().__init__(threads=task["lanes"], progress=self.look)
        self.task, self.policy, self.budget, self.found, self.leaked = task, policy, budget, {}, []

    def look(self, stage, done, total, loss) -> None:
        if stage == "training" and done == 2 and self.task["leak"]:
            self.leaked.append(bytearray(self.task["leak"]))
        self.peak.look()

    def open(self, network, episode, seed=0) -> Run:
        return WatchedRun(self, network, episode, seed)


def growth_of_second(adapting, lanes: int) -> dict:
    """Of the second of two calls: its arena, and what the process grows by at the most."""
    arena = adapting(device=Device(threads=lanes)).program.nbytes
    peak = Peak()
    adapting(device=Device(threads=lanes))
    peak.look()
    return {"arena": arena, "growth": peak.growth}


def main() -> None:
    task = json.loads(sys.argv[1])
    network = load_backbone(task["network"])
    assert network.digest  # computed once and kept, as with every network that was loaded and checked
    episode = decoded_episode(network.input.size, task["shots"], task["queries"])
    policy = given_policy(task["policy"])
    limits = Budget(0, task["macs"], precision=task["precision"])
    least = smallest(network, policy, limits, TaskShape.of(episode))
    budget = replace(limits, memory=max(task["budget"] or 0, least))
    warm_up()
    if task["whole"]:
        print(json.dumps(growth_of_second(partial(adapt, network, episode, budget, policy), task["lanes"])))
        return
    device = WatchedDevice(task, policy, budget)
    with suppress(Measured):
        adapt(network, episode, budget, policy, device=device)
    print(json.dumps(device.found | {"smallest": least, "budget": budget.memory}))


if __name__ == "__main__":
    main()
