"""Every budget around the smallest one, and plans of networks as they are placed.

``TINYTRAIN_ARENA_PLANS=1000`` places that many random plans (default 100) and takes more networks through
more budgets: toy networks in steps of 64 bytes, shipped and published ones (TINYTRAIN_SHARED), whose plans
take a tenth of a second each, in steps of 1 kB; all of them byte by byte within 64 bytes of the boundary.
"""

import os

import numpy as np
import pytest
import toynets
from published import published_network
from toydevices import ONE
from toyplans import plan_in

import tinytrain
from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.base.errors import BudgetError
from tinytrain.network.file import load_network
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.candidates import candidates, smallest
from tinytrain.policies.registry import POLICIES
from tinytrain.program.compile import compile_training
from tinytrain.program.memory_planner import lower_bound

PLANS = int(os.environ.get("TINYTRAIN_ARENA_PLANS", "0"))
PUBLISHED = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")
TOYS = {"toy": toy_network, "blocks": lambda: toynets.toy("blocks"), "headed": lambda: toynets.toy("headed")}
NEAR, STEP = 4096, 64
TASK = TaskShape(6, 3)


def network_of(name):
    if name in TOYS:
        return TOYS[name]()
    if name == SHIPPED.name:
        return load_network(SHIPPED.path)
    return published_network(name)


EVERY = [
    (name, policy) for name in (*TOYS, SHIPPED.name, *PUBLISHED) for policy in ("tinytrain", "last_layer")
]
FEW = [("toy", "last_layer"), ("headed", "tinytrain")]


@pytest.mark.parametrize("name, policy", EVERY if PLANS else FEW)
def test_every_budget_below_the_smallest_is_refused_with_it_and_every_one_above_holds(name, policy):
    network, policy = network_of(name), POLICIES[policy]
    with pytest.raises(BudgetError) as first:
        plan_in(network, policy, 0, TASK)
    least, far = first.value.smallest, STEP if PLANS and name in TOYS else 1024
    near = STEP if PLANS else STEP // 4
    for memory in {*range(0, least, far), *range(least - near, least)}:
        with pytest.raises(BudgetError) as refusal:
            plan_in(network, policy, memory, TASK)
        assert refusal.value.smallest == least
        assert f"needs {least} bytes at the least, the budget is {memory};" in str(refusal.value)
    for memory in {*range(least, least + near + 1), *range(least, least + NEAR, far)}:
        probe, found = plan_in(network, policy, memory, TASK)
        assert max(probe, found.nbytes) <= memory


@pytest.mark.parametrize("name", TOYS)
def test_an_adaptation_runs_in_the_smallest_arena_and_in_those_a_few_bytes_larger(name):
    network, episode = network_of(name), toy_episode(way=3, shots=2, queries=1)
    with pytest.raises(BudgetError) as refusal:
        tinytrain.adapt(network, episode, Budget(0), "tinytrain")
    for memory in range(refusal.value.smallest, refusal.value.smallest + STEP + 1, 1 if PLANS else 21):
        report = tinytrain.adapt(network, episode, Budget(memory), "tinytrain", device=ONE, force=True)
        assert report.to_json()["memory"]["arena"] <= memory and report.delta.is_finite()


def test_plans_of_random_updates_waste_little():
    """Layouts of whole programs and of each segment of them, against the most bytes alive at one time."""
    ratios = []
    for number in range(PLANS or 100):
        r = toynets.rng("plan", number)
        network = network_of(list(TOYS)[number % len(TOYS)])
        recipe = toynets.recipe(
            toynets.random_updates(network, number), optimizer=str(r.choice(["sgd", "momentum", "adam"])),
            head=str(r.choice(["cosine", "lda"])), views=int(r.integers(3, 9)),
        )  # fmt: skip
        way = int(r.integers(2, 8))
        task = TaskShape(way * int(r.integers(1, 8)), way)
        resources = [*candidates(recipe, task), *smallest(recipe, task)]
        program = compile_training(network, recipe, resources[r.integers(len(resources))], task)
        layouts = [program.layout, *(segment.layout for segment in program.segments.values())]
        ratios += [layout.nbytes / max(1, lower_bound(layout.intervals)) for layout in layouts]
    assert np.median(ratios) <= 1.05 and max(ratios) <= 1.25
