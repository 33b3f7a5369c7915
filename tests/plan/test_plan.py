"""A plan is a value: a file holds it, another run obeys it, and what is damaged ends in one line."""

import json
from dataclasses import replace

import pytest
from cases import each, quick
from toydevices import ONE
from toyplans import planned
from toypolicies import POLICIES

from tinytrain.base.errors import BudgetError, InputError, TinytrainError
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import macs_of
from tinytrain.plan.plan import Cost, Plan, load_plan, save_plan
from tinytrain.planner.candidates import Programs
from tinytrain.planner.planner import Planner
from tinytrain.runtime import adaptation

NETWORK, EPISODE = toy_network(), toy_episode()
TASK = TaskShape.of(EPISODE)
HOSTILE = (None, True, -1, 0, 2, 0.5, 1e300, 10**30, float("nan"), "", "x", "a\nb", [], [[]], {}, [0] * 99)


def plan_of(name="tinytrain", memory=10**6, macs=0.5):
    return planned(NETWORK, EPISODE, Budget(memory, macs), POLICIES[name], device=ONE)[1]


def arrays(report):
    """Every array of a delta, bit for bit, with the channels that they belong to."""
    slices = [(s.layer, s.part, s.channels.tobytes(), s.values.tobytes()) for s in report.delta.slices]
    return slices, [a.tobytes() for a in report.delta.head.arrays()], report.delta.head.temperature


def places(value, path=()):
    """Paths of all values inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def changed(facts, path, value):
    """`facts` with `value` at a path."""
    facts = json.loads(json.dumps(facts))
    at = facts
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return facts


@each("name", POLICIES)
@each("memory", [60_000, 10**6])
def test_a_plan_comes_back_from_its_file_as_it_was(tmp_path, name, memory):
    plan = plan_of(name, memory if POLICIES[name].shrinks else 10**6)
    save_plan(tmp_path / "plan.json", plan)
    again = load_plan(tmp_path / "plan.json")
    assert again == plan and hash(again) == hash(plan)
    assert again.to_json() == plan.to_json() == json.loads((tmp_path / "plan.json").read_text())


@each("name", ["tinytrain", "last_layer", "trady", "tinytl", "transductive", "none"])
def test_a_plan_in_the_place_of_its_policy_gives_the_same_bits_without_measuring(monkeypatch, name):
    budget = Budget(10**6, 0.5)
    usual = adapt(NETWORK, EPISODE, budget, POLICIES[name], 3, ONE, force=True)
    plan = Plan.from_json(planned(NETWORK, EPISODE, budget, POLICIES[name], 3, ONE)[1].to_json())
    monkeypatch.setattr(
        adaptation, "measure_fisher", lambda *_: pytest.fail("Fisher information was measured")
    )
    obeyed = adapt(NETWORK, EPISODE, None, plan, 3, ONE, force=True)
    assert arrays(obeyed) == arrays(usual) and obeyed.plan == usual.plan == plan
    assert obeyed.ran.losses == usual.ran.losses and obeyed.scores is None


def test_what_a_plan_says_is_done_and_nothing_else():
    plan = plan_of("last_layer")
    one = replace(plan.recipe.updates[0], channels=(3,))
    few = replace(plan, recipe=replace(plan.recipe, updates=(one,), steps=2))
    arena = Programs(NETWORK, TASK).training(few.recipe, few.resources, few.row_tile).nbytes
    cost = Cost(arena, *macs_of(NETWORK, few.recipe, few.resources, TASK))
    report = adapt(NETWORK, EPISODE, None, replace(few, cost=cost), device=ONE, force=True)
    (piece,) = report.delta.slices
    assert piece.channels.tolist() == [3] and len(report.ran.losses) == 2


def refused(plan, network=NETWORK, task=TASK, budget=None):
    with pytest.raises(TinytrainError) as caught:
        Planner(network, task, plan, budget).probe()
    return caught.value


def test_a_plan_for_another_network_task_or_budget_is_refused_with_a_remedy():
    plan = plan_of()
    other = refused(plan, toy_network(seed=1))
    assert isinstance(other, InputError) and other.code == "backbone-mismatch" and "make one" in other.message
    for task in (TaskShape(13, 3, 12), TaskShape(12, 4, 12), TaskShape(12, 3, 11)):
        error = refused(plan, task=task)
        assert error.code == "run-mismatch" and f"{task.n_support} support images" in error.message
    need = plan.cost.arena
    memory = refused(plan, budget=Budget(need - 1, 0.5))
    assert isinstance(memory, BudgetError) and memory.smallest == need and f"--budget {need}" in str(memory)
    macs = refused(plan, budget=Budget(10**6, 0.01))
    assert isinstance(macs, BudgetError) and macs.code == "budget-too-small"
    enough = float(str(macs).split("--macs ")[1].split("%")[0]) / 100
    Planner(NETWORK, TASK, plan, Budget(need, enough)).probe()


def test_a_smaller_budget_that_the_plan_keeps_is_the_one_that_is_reported():
    plan = plan_of()
    facts = adapt(NETWORK, EPISODE, Budget(plan.cost.arena, 0.5), plan, device=ONE).to_json()
    assert facts["memory"]["budget"] == facts["memory"]["arena"] == plan.cost.arena


@pytest.mark.parametrize("name", quick(["tinytrain", "trady"]))
def test_whatever_stands_in_a_plan_ends_in_one_line_or_in_a_plan_that_works(name):
    good = plan_of(name).to_json()
    refusals = 0
    for path in places(good):
        for value in HOSTILE:
            try:
                plan = Plan.from_json(changed(good, path, value))
                planner = Planner(NETWORK, TASK, plan)
                planner.probe()
                planner.program(planner.plan(None))
            except TinytrainError as error:
                assert "\n" not in str(error) and error.exit_code in (3, 4), (path, value)
                refusals += 1
    assert refusals > 1000


def test_a_file_that_ends_early_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    save_plan(path, plan_of("last_layer"))
    data = path.read_bytes()
    for length in range(1, len(data) - 2, 7):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match="file-damaged"):
            load_plan(path)
    for other in (b"[]", b"{}", b"null", b'{"version": 2}', b"[" * 10**5, b"\xff\xfe"):
        path.write_bytes(other)
        with pytest.raises(InputError, match="file-damaged"):
            load_plan(path)
