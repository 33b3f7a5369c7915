"""From a budget to a plan: never a byte over, and refusals that name a budget which works."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each, quick
from toynets import WIDE, everything, recipe, toy
from toypolicies import POLICIES

from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import BudgetError
from tinytrain.pipeline.toy import toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import backward_macs_per_query, full_backward_macs, image_macs
from tinytrain.plan.recipe import MOST_WORKERS, Recipe, Resources, StepOptions, Update
from tinytrain.plan.scores import Scores
from tinytrain.planner.candidates import ROW_TILES, WIDE_TILES, Programs, candidates, smallest, step_sizes
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.program.calls import BACKWARD
from tinytrain.program.compile import compile_fisher, compile_training, training_bytes
from tinytrain.program.segments import SegmentBank

NETWORK = toy_network()
TASKS = (TaskShape(12, 3, 15), TaskShape(120, 8, 40))
EVERY = each("name", list(POLICIES))


def scores_of(policy, network=NETWORK, seed=0):
    if policy.inspects is None:
        return None
    rng = np.random.default_rng(seed)
    layers = policy.inspects(network)
    return Scores({i: rng.random(network.layers[i].cout).astype("f") for i in layers}, 1.0, 0, 0)


def plan(name, memory, task=TASKS[0], macs=0.5, network=NETWORK):
    """What `adapt` does before anything runs, with made-up scores."""
    planner = Planner(network, task, POLICIES[name], Budget(memory, macs))
    planner.probe()
    return planner.plan(scores_of(POLICIES[name], network))


def probe(policy, memory):
    return Planner(NETWORK, TASKS[0], policy, Budget(memory)).probe()


@pytest.mark.parametrize("kind", ["prefix", "embed", "backward"])
def test_wide_row_tiles_take_fewer_calls_and_the_same_macs(kind):
    network = toy_network()
    updates = tuple(Update(i, tuple(range(4)), bias=True) for i in range(3 if kind == "prefix" else 0, 6))
    recipe = Recipe("test", updates, ((1e-3, 1e-3),) * len(updates))
    banks = (SegmentBank(network, recipe, row_tile) for row_tile in (WIDE_TILES[0], 2_000))
    key = kind, 1 + (kind == "backward")
    wide, usual = (bank.segments([key])[key] for bank in banks)
    assert len(wide.calls) < len(usual.calls)
    for part in ("forward", "grad_input", "grad_weight"):
        assert wide.macs(part) == usual.macs(part)


def test_there_is_no_program_a_byte_below_what_it_takes(monkeypatch):
    network, task = toy_network(), TaskShape(4, 2)
    resources, wanted = Resources(0, 1, 4, 4), recipe(everything(network))
    free = compile_training(network, wanted, resources, task)
    inside = compile_training(network, wanted, resources, task, limit=free.nbytes)
    assert inside.table() == free.table()
    assert compile_training(network, wanted, resources, task, limit=free.nbytes - 1) is None
    monkeypatch.setattr(
        "tinytrain.program.memory_planner.lower_bound", lambda _: 0
    )  # known only once it was placed
    assert compile_training(network, wanted, resources, task, limit=free.nbytes - 1) is None


def test_a_size_that_is_known_is_held_against_every_limit_to_the_byte():
    network, resources = toy_network(), Resources(0, 1, 4, 4)
    wanted, programs = recipe(everything(network)), Programs(network, TaskShape(4, 2))
    size = programs.nbytes(wanted, resources)
    for known in (programs, Programs(network, TaskShape(4, 2))):
        limits = (size - 1, size, size + 1, size - 1)
        assert [known.nbytes(wanted, resources, limit=n) for n in limits] == [None, size, size, None]


def test_only_bytes_that_are_left_are_spent_on_larger_row_tiles():
    network, resources = toy(WIDE, size=16), Resources(0, 1, 4, 4)
    wanted, task = recipe(everything(network)), TaskShape(4, 2)
    programs = Programs(network, task)
    usual = programs.training(wanted, resources)
    tiles = [
        Planner(network, task, "full", Budget(memory)).row_tile(wanted, resources)
        for memory in (10**7, usual.nbytes - 1)
    ]
    assert tiles == [WIDE_TILES[0], None]


@each("network", [toy_network(), toy(WIDE, size=16), load_backbone("small")])
def test_larger_row_tiles_never_take_fewer_bytes(network):
    wanted, resources = recipe(everything(network)), Resources(0, 1, 1, 4, 4)
    programs = Programs(network, TaskShape(4, 2))
    sizes = [programs.nbytes(wanted, resources, tile) for tile in sorted(ROW_TILES)]
    assert sizes == sorted(sizes)


@pytest.fixture
def sized(monkeypatch):
    """(recipe, row tile) of every program whose bytes are asked for."""
    found = []

    def noted(bank, *more):
        found.append((bank.recipe, bank.row_tile))
        return training_bytes(bank, *more)

    monkeypatch.setattr("tinytrain.planner.candidates.training_bytes", noted)
    return found


def test_where_the_smallest_row_tile_does_not_fit_no_other_is_tried(sized):
    network = toy(WIDE, size=16)
    wanted, planner = recipe(everything(network)), Planner(network, TaskShape(4, 2), "full", Budget(1000))
    assert planner.row_tile(wanted, Resources(0, 1, 1, 4, 4)) is None
    assert sized == [(wanted, min(ROW_TILES))]


@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("task", quick(TASKS))
def test_a_plan_is_never_a_byte_over_the_budget_and_a_refusal_names_one_that_works(name, task):
    """One byte less than the named budget is refused as well."""
    with pytest.raises(BudgetError) as caught:
        plan(name, 1, task)
    least = caught.value.smallest
    assert caught.value.exit_code == 4 and f"--budget {least}" in str(caught.value)
    assert plan(name, least, task).cost.arena <= least
    with pytest.raises(BudgetError) as again:
        plan(name, least - 1, task)
    assert again.value.smallest == least
    for memory in (*range(least, least + 6000, 997), 2 * least, 10 * least):
        assert plan(name, memory, task).cost.arena <= memory


def test_the_bytes_named_are_those_needed_where_all_that_is_chosen_takes_fewer_than_the_least():
    """Of 60 classes, as the MACs that a few biases leave go to more images of a step."""
    task, policy = TaskShape(240, 60), POLICIES["tinytrain"]
    planner = Planner(NETWORK, task, policy, Budget(1))
    least, guess = planner.smallest_budget(None), planner.unmeasured()
    assert Planner(NETWORK, task, policy, Budget(least - 1)).plan(guess).cost.arena < least
    with pytest.raises(BudgetError) as caught:
        Planner(NETWORK, task, policy, Budget(least - 1)).probe()
    assert caught.value.smallest == least
    assert Planner(NETWORK, task, policy, Budget(least)).probe().nbytes <= least


def test_a_policy_that_inspects_a_single_layer_is_refused_as_any_other():
    """There is no layer that could be left out."""
    policy = replace(POLICIES["tinytrain"], inspects=lambda network: (6,))
    with pytest.raises(BudgetError) as caught:
        probe(policy, 1)
    assert probe(policy, caught.value.smallest).nbytes > 0


@EVERY
def test_the_smallest_budget_does_not_depend_on_what_is_measured(name):
    policy = POLICIES[name]
    sizes = {
        Planner(NETWORK, TASKS[0], policy, Budget(memory)).smallest_budget(scores_of(policy, seed=seed))
        for seed in range(6)
        for memory in (1, 10**6)
    }
    assert len(sizes) == 1


@each("name", [n for n, p in POLICIES.items() if p.inspects])
def test_a_probe_that_does_not_fit_measures_fewer_layers_and_the_named_budget_includes_it(name):
    policy = POLICIES[name]
    wanted = policy.inspects(NETWORK)
    full = compile_fisher(NETWORK, wanted, TASKS[0]).nbytes
    assert probe(policy, 10**6).inspected == wanted
    with pytest.raises(BudgetError) as caught:
        probe(policy, 1)
    least = caught.value.smallest
    for memory in {least, max(least, full - 1)}:
        program = probe(policy, memory)
        inspected = program.inspected
        assert program.nbytes <= memory and inspected == wanted[-len(inspected) :]


def test_a_probe_takes_the_whole_budget_and_no_byte_more():
    """Of a policy whose probe takes more than what it trains."""
    every = tuple(range(len(NETWORK.layers)))
    policy = replace(POLICIES["none"], inspects=lambda network: every)
    with pytest.raises(BudgetError) as caught:
        probe(policy, 1)
    sizes = {compile_fisher(NETWORK, every[k:], TASKS[0]).nbytes for k in every}
    found = [n for n in sizes if n > caught.value.smallest]
    assert len(found) > 3 and all(probe(policy, n).nbytes == n > probe(policy, n - 1).nbytes for n in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
def test_a_larger_budget_never_takes_anything_away(name):
    """Of views, two workers, images per call, row tiles and further workers, in this order.

    The policy does not look at the budget here, and the optimizer is the least.
    """
    policy = POLICIES[name]
    fixed = policy.recipe(NETWORK, scores_of(policy), Budget(10**6, 0.5), TASKS[0], 1.0)
    fixed = replace(fixed, optimizer="sgd", decay=(0.0, 0.0))  # views may be cached
    same = Policy("same", lambda *a: fixed, "", shrinks=False, macs_limited=False)
    need = Planner(NETWORK, TASKS[0], same).smallest_budget(None)
    plans = [Planner(NETWORK, TASKS[0], same, Budget(m)).plan(None) for m in range(need, 9 * need, need // 7)]
    found = [p.resources for p in plans]
    kept = [
        (r.sets > 1, r.sets * (r.sets < 2), min(r.workers, 2), r.sets, r.micro, p.row_tile or 0, r.workers)
        for p, r in zip(plans, found, strict=True)
    ]
    assert kept == sorted(kept) and found[0].sets < found[-1].sets == 1 + fixed.views
    assert max(r.workers for r in found) > 2


def test_a_plan_with_room_for_everything_keeps_all_defaults():
    policy = POLICIES["tinytrain"]
    found, recipe = (
        plan("tinytrain", 10**7),
        policy.recipe(NETWORK, scores_of(policy), Budget(10**7, 0.5), TASKS[0], 1),
    )
    resources = replace(next(candidates(recipe, TASKS[0])), workers=MOST_WORKERS)
    assert found.recipe == recipe and found.resources == resources


@EVERY
@each("task", TASKS)
@each("kind", ["sensible", "everything"])
def test_the_budget_said_to_keep_the_selection_or_everything_keeps_it(name, task, kind):
    """It is the smallest one unless the policy itself asks for less where there is less."""
    policy = POLICIES[name]
    scores = scores_of(policy)
    advice = Planner(NETWORK, task, policy, Budget(1, 0.5)).advice(scores)
    assert list(advice) == ["smallest", "sensible", "everything"]
    assert 0 < advice["smallest"] <= advice["sensible"] <= advice["everything"]
    memory = advice[kind]
    asked, less = (policy.recipe(NETWORK, scores, Budget(m, 0.5), task, 1.0) for m in (memory, memory - 1))
    most = next(candidates(asked, task))

    def kept(memory):
        found = Planner(NETWORK, task, policy, Budget(memory, 0.5)).plan(scores)
        mine, its = ((r.sets, r.step_support, r.workers) for r in (found.resources, most))
        return found.recipe == asked and (kind == "sensible" or mine == its)

    assert kept(memory)
    if less == asked and memory > advice["smallest"]:
        assert not kept(memory - 1)


@EVERY
def test_what_a_refusal_says_of_other_budgets_does_not_depend_on_the_refused_one(name):
    refusals = []
    for memory in (1, 1_000, 5_000):
        with pytest.raises(BudgetError) as caught:
            plan(name, memory)
        refusals.append(str(caught.value).replace(f"the budget is {memory};", ""))
    assert len(set(refusals)) == 1


def test_a_further_worker_costs_what_it_works_in_and_no_gradients():
    resources, recipe = Resources(4, 1, 12, 12, workers=3), plan("tinytrain", 10**7).recipe
    table = compile_training(NETWORK, recipe, resources, TASKS[0]).table()
    held = [row for row in table if "worker 2" in row["name"] and row["first"] <= BACKWARD <= row["last"]]
    assert {row["name"].split()[0] for row in held} == {"workspace", "features", "embedding"}
    assert sum(row["name"] == "gradients" for row in table) == 1


def test_memory_that_is_left_brings_workers_one_by_one():
    recipe, programs = plan("tinytrain", 10**7).recipe, Programs(NETWORK, TASKS[0])
    same, tile = Policy("same", lambda *a: recipe, "", shrinks=False, macs_limited=False), WIDE_TILES[0]
    resources = next(candidates(recipe, TASKS[0]))
    for workers in range(3, MOST_WORKERS + 1):
        need = programs.nbytes(recipe, replace(resources, workers=workers), tile)
        for memory, expected in ((need, workers), (need - 1, workers - 1)):
            found = Planner(NETWORK, TASKS[0], same, Budget(memory)).plan(None)
            assert (found.resources.workers, found.row_tile) == (expected, tile)


def test_views_go_before_channels_and_channels_before_the_optimizer():
    with pytest.raises(BudgetError) as bare:
        plan("last_layer", 1)
    found = [plan("last_layer", memory) for memory in (200_000, 24_000, bare.value.smallest)]
    views = [f.resources.sets - 1 for f in found]
    channels = [len(f.recipe.updates[0].channels) for f in found]
    optimizers = [f.recipe.optimizer for f in found]
    assert views[0] > views[1] and channels[:2] == [NETWORK.layers[-1].cout] * 2 and channels[2] < channels[1]
    assert optimizers[:2] == ["adam", "adam"]


@each("task", [*TASKS, TaskShape(500, 43), TaskShape(60, 60), TaskShape(51, 2)])
def test_a_step_has_room_for_every_class(task):
    sizes = step_sizes(task)
    assert all(task.n_way <= size <= task.n_support for size in sizes)
    assert sizes[0] == task.n_support or sizes[0] >= 50


@EVERY
@each("macs", [0.05, 0.15, 0.3])
@each("mode", ["mean", "sample"])
def test_the_mac_budget_is_kept(name, macs, mode):
    policy = POLICIES[name]
    budget = Budget(10**6, macs, mode)
    found = Planner(NETWORK, TASKS[0], policy, budget).plan(scores_of(policy))
    if mode == "sample" or policy.macs_of_image:
        cost = image_macs(NETWORK, found.recipe.updates)
    else:
        images = found.resources.step_support, found.resources.step_queries
        cost = backward_macs_per_query(NETWORK, found.recipe, *images)
    if policy.macs_limited:
        assert cost <= macs * full_backward_macs(NETWORK) * (1 + 1e-9)


def test_a_policy_that_breaks_its_mac_budget_is_refused_with_the_figure_that_works():
    updates = tuple(Update(i, tuple(range(x.cout))) for i, x in enumerate(NETWORK.layers))
    greedy = Recipe("greedy", updates, ((0.1, 0.1),) * len(updates))
    policy = Policy("greedy", lambda *a: greedy, "")
    with pytest.raises(BudgetError) as caught:
        Planner(NETWORK, TASKS[0], policy, Budget(10**7)).plan(None)
    assert caught.value.code == "budget-too-small"
    percent = int(str(caught.value).split("--macs ")[1].split("%")[0])
    assert Planner(NETWORK, TASKS[0], policy, Budget(10**7, percent / 100)).plan(None).recipe == greedy


def test_the_mac_budget_is_kept_by_the_steps_of_a_plan_too_small_for_the_share_of_images(monkeypatch):
    """A tenth of two images is none, and one is run backward."""
    rare = Recipe("rare", (Update(len(NETWORK.layers) - 1, (0,)),), ((0.1, 0.1),), options=StepOptions(0.1))
    policy = Policy("rare", lambda *a: rare, "", shrinks=False)
    share = 0.2 * image_macs(NETWORK, rare.updates) / full_backward_macs(NETWORK)
    budget = Budget(10**7, share)
    planner = Planner(NETWORK, TaskShape(60, 2), policy, budget)
    assert planner.plan(None).resources.step_queries == 50
    monkeypatch.setattr("tinytrain.planner.planner.candidates", lambda *a: [Resources(0, 1, 2, 2)])
    with pytest.raises(BudgetError, match="budget-too-small"):
        planner.plan(None)


@EVERY
def test_a_program_s_arena_is_the_end_of_its_last_buffer_and_its_table_is_complete(name):
    found = plan(name, 50_000 if POLICIES[name].shrinks else 10**6)
    program = Programs(NETWORK, TASKS[0]).training(found.recipe, found.resources, found.row_tile)
    rows = program.table()
    assert max(r["offset"] + r["bytes"] for r in rows) <= program.nbytes == found.cost.arena
    assert {r["name"] for r in rows} == program.buffers.keys()
    ways = smallest(found.recipe, TASKS[0])
    least = [compile_training(NETWORK, found.recipe, r, TASKS[0]).nbytes for r in ways]
    assert min(least) <= found.cost.arena


@EVERY
@each("memory", [1, 24_000, 60_000, 10**7])
def test_every_candidate_is_placed_once(monkeypatch, name, memory):
    """Whatever is asked about one task: whether it fits, by how much not, the plan, its program."""
    placed = []

    def counted(bank, resources, task, limit):
        size = training_bytes(bank, resources, task, limit)
        placed.append((bank.recipe, resources, bank.row_tile, limit if size is None else "placed"))
        return size

    monkeypatch.setattr("tinytrain.planner.candidates.training_bytes", counted)
    planner = Planner(NETWORK, TASKS[0], POLICIES[name], Budget(memory, 0.5))
    scores = scores_of(POLICIES[name])
    for _ in range(2):
        try:
            planner.probe()
            assert planner.program(planner.plan(scores)).nbytes <= memory
        except BudgetError as error:
            assert error.smallest > memory
    assert planner.smallest_budget(scores) > 0
    assert len(placed) == len(set(placed)) > 0
