"""The published networks in budgets of 256 kB to 8 MB: inside to the byte, or refused with one that works."""

from dataclasses import replace

import numpy as np
import pytest
from cases import quick
from published import published_network
from toyplans import plan_in

import tinytrain
from tinytrain.base.errors import BudgetError
from tinytrain.episode.episode import Episode, Images
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.policies.registry import POLICIES
from tinytrain.program.memory_planner import lower_bound
from tinytrain.runtime.device import Device

NAMES = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")
TASKS = (TaskShape(25, 5), TaskShape(500, 43))
BUDGETS = (256_000, 400_000, 512_000, 10**6, 2 * 10**6, 8 * 10**6)
CHOSEN = ("tinytrain", "tinytrain_published", "sparse_update", "last_layer", "full", "none")


@pytest.fixture(scope="module", params=NAMES)
def network(request):
    return published_network(request.param)


def episode(task):
    """Images made of one random tile each, labels dealt out in turn, one query per class."""

    def read(i, size):
        tile = np.random.default_rng(i).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        return np.tile(tile, (size // 8, size // 8, 1))

    labels = (np.arange(task.n_support) % task.n_way).astype(np.int32)
    support = Images(labels, tuple(map(str, range(len(labels)))), read)
    return Episode(support, support.take(range(task.n_way)), tuple(map(str, range(task.n_way))))


@pytest.mark.parametrize("task", TASKS, ids=["25 images", "500 images"])
@pytest.mark.parametrize("name", quick(CHOSEN))
def test_every_budget_holds_or_is_refused_with_one_that_holds(network, name, task):
    policy, named, waste = POLICIES[name], set(), []
    for memory in BUDGETS:
        try:
            probe, found = plan_in(network, policy, memory, task)
        except BudgetError as refusal:
            assert refusal.exit_code == 4 and refusal.smallest > memory
            named.add(refusal.smallest)
            continue
        assert found.nbytes <= memory and probe <= memory
        assert not named or memory >= min(named)
        layouts = [found.layout, *(s.layout for s in found.segments.values())]
        waste += [x.nbytes / max(1, lower_bound(x.intervals)) for x in layouts]
    assert len(named) <= 1
    for least in named:
        probe, found = plan_in(network, policy, least, task)
        assert max(probe, found.nbytes) <= least
        with pytest.raises(BudgetError):
            plan_in(network, policy, least - 1, task)
    assert not waste or (np.median(waste) <= 1.05 and max(waste) <= 1.25)


def short(name, steps):
    """The policy of that name with fewer steps."""
    whole = POLICIES[name]
    recipe = lambda *arguments: replace(whole.recipe(*arguments), steps=steps)  # noqa: E731
    return replace(whole, recipe=recipe)


RUNS = [*((n, p, TASKS[0]) for n in NAMES for p in CHOSEN[:3]), (NAMES[1], "last_layer", TASKS[1])]


@pytest.mark.parametrize("network, name, task", quick(RUNS), indirect=["network"])
def test_an_adaptation_runs_in_the_smallest_budget_that_its_refusal_names(network, name, task):
    before, images = [b.copy() for b in network.biases], episode(task)
    with pytest.raises(BudgetError) as refusal:
        tinytrain.adapt(network, images, Budget(1), short(name, 1))
    least = refusal.value.smallest
    report = tinytrain.adapt(network, images, Budget(least), short(name, 1))
    assert report.to_json()["memory"]["arena"] <= least
    assert len(report.ran.losses) == 1 and np.isfinite(report.ran.losses).all()
    assert all((a == b).all() for a, b in zip(before, network.biases, strict=True))


@pytest.mark.parametrize("network", NAMES[:1], indirect=True)
def test_one_lane_and_two_train_the_same_numbers_bit_for_bit(network):
    results = []
    for workers in (1, 2, 3):
        report = tinytrain.adapt(
            network,
            episode(TASKS[0]),
            Budget(2 * 10**6),
            short("tinytrain", 3),
            device=Device(threads=workers),
        )
        assert report.plan.resources.workers > 2
        results.append(
            [s.values.tobytes() for s in report.delta.slices] + [report.delta.head.weights.tobytes()]
        )
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("network", NAMES[:1], indirect=True)
def test_two_backends_predict_the_same(network):
    reports = [
        tinytrain.adapt(
            network, episode(TASKS[0]), Budget(2 * 10**6), short("last_layer", 1), device=Device(backend)
        )
        for backend in ("numba", "numpy")
    ]
    assert (reports[0].answers.after == reports[1].answers.after).all()
