"""Training allocates nothing while it runs, and writes to nothing but the arena and the working copy."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from toydevices import ONE, DirtyArena
from toynets import calls_of
from toypolicies import POLICIES

import tinytrain
from tinytrain.base.arena import Arena
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.program.backends.working_copy import parts_of
from tinytrain.runtime import device
from tinytrain.runtime.trainer import Trainer

PLANS = pytest.mark.parametrize(
    "policy, memory", [(p, m) for p in POLICIES for m in (24_000, 10**6) if POLICIES[p].shrinks or m == 10**6]
)
STEPS = 6
TRAINING = [name for name, policy in POLICIES.items() if policy.trains]


def run(policy, memory, episode=None, machine=ONE):
    episode, whole = episode or toy_episode(), POLICIES[policy]
    few = replace(whole, recipe=lambda *arguments: replace(whole.recipe(*arguments), steps=STEPS))
    return tinytrain.adapt(toy_network(), episode, Budget(memory, macs=0.5), few, device=machine, force=True)


def outcome(report):
    """Every number of the result, bit for bit."""
    head, answers = report.delta.head, report.answers
    slices = [s.values.tobytes() for s in report.delta.slices]
    return slices, head.weights.tobytes(), report.ran.losses, answers.after.tolist(), answers.before.tolist()


@PLANS
def test_what_the_arena_held_before_changes_nothing(monkeypatch, policy, memory):
    clean = run(policy, memory)

    monkeypatch.setattr(device, "Arena", DirtyArena)
    assert outcome(run(policy, memory)) == outcome(clean)


@PLANS
def test_every_array_that_is_written_lies_in_the_arena_or_is_of_a_trained_layer(monkeypatch, policy, memory):
    """Every array that a kernel is given to write to; images may be read from anywhere."""
    table, calls = calls_of()
    monkeypatch.setattr(device.kernel_table, "load", lambda backend: table)
    arenas, trainers = [], []

    class Watched(Arena):
        def __init__(self, nbytes):
            super().__init__(nbytes)
            arenas.append(self.view(0, (nbytes,), "uint8"))

    monkeypatch.setattr(device, "Arena", Watched)
    keep = Trainer.__init__
    monkeypatch.setattr(Trainer, "__init__", lambda self, *a: (keep(self, *a), trainers.append(self))[0])
    report = run(policy, memory)
    copy = trainers[0].working
    working = [copy.part(*part) for part in (*copy.own, *parts_of(copy.network.added))]
    inside = [bounds(a) for a in (*arenas, *working)]
    outside = {
        name
        for name, args in calls
        for low, high in [bounds(args[0])]
        if not any(start <= low and high <= end for start, end in inside)
    }
    # The head has a vector of its own, the size of an embedding: for the mean without an image that is left
    # out, and for what the scatter of few images adds to a mean.
    packed = {"cholesky_solve_packed", "inverse_diagonal_packed"}
    assert outside <= {"cholesky_solve", "inverse_diagonal"} | packed
    assert max(a.nbytes for a in arenas) <= report.plan.budget.memory


def bounds(array):
    """Addresses of the first byte and of the one after the last."""
    length = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
    return array.ctypes.data, array.ctypes.data + length + array.itemsize


@each("policy", TRAINING)
def test_units_that_work_at_the_same_time_share_neither_an_image_nor_what_is_bound(monkeypatch, policy):
    keep, found = Trainer.__init__, []

    def made(self, *arguments):
        keep(self, *arguments)
        found.extend(map(self.bound_of, self.program.units.values()))

    monkeypatch.setattr(Trainer, "__init__", made)
    run(policy, 10**6, machine=device.Device(threads=3))
    assert max(map(len, found)) == 3
    for stage in found:
        assert len({id(unit._rows) for unit in stage}) == len(stage)
        bound = [id(calls) for unit in stage for calls in unit.segments.values()]
        assert len(set(bound)) == len(bound)


@each("policy", TRAINING)
@each("shots", [4, 30])
def test_no_array_is_allocated_while_training_runs(monkeypatch, policy, shots):
    """From the third step on; a step's lists of images are all that comes and goes.

    What another thread takes meanwhile, such as one that reports tests, is not there in a second run.
    """
    episode = toy_episode(shots=shots)
    decoded = [p.read(i, 16) for p in (episode.support, episode.query) for i in range(len(p))]
    original, kept, peaks, arrays = Trainer.step, [], [], []

    def step(self, number, *images):
        self.source = replace(self.source, read=decoded.__getitem__)
        if number < 3:
            return original(self, number, *images)
        if number == 3:
            tracemalloc.start()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        loss = original(self, number, *images)
        after, peak = tracemalloc.get_traced_memory()
        kept.append(after - before)
        peaks.append(peak - before)
        if number == self.recipe.steps:
            numpy = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
            traces = tracemalloc.take_snapshot().filter_traces((numpy,)).traces
            arrays.extend(t.size for t in traces)
            tracemalloc.stop()
        return loss

    monkeypatch.setattr(Trainer, "step", step)
    report = [run(policy, 10**6, episode) for _ in range(2)][-1]
    kept, peaks = (np.minimum(*np.split(np.array(of_steps), 2)) for of_steps in (kept, peaks))
    assert len(peaks) == report.plan.recipe.steps - 2
    assert not arrays and kept.max() <= 2000
    assert peaks.max() <= 1000 + 300 * report.plan.resources.step_queries
