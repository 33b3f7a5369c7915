"""Matrices: what is wrong in one is named; what they expand to; learning rates from a file."""

import math
import pickle

import pytest
import toybench
from cases import each

from tinytrain.base.errors import BudgetError, InputError, UsageError
from tinytrain.meta.bench.jobs import Backbone, expand, pending
from tinytrain.meta.bench.matrix import FOLDER, load_matrix
from tinytrain.meta.bench.narrow import narrowed
from tinytrain.meta.bench.rates import Rates, TunedRate, load_rates, read_rates, save_rates
from tinytrain.meta.bench.sampler import Entry, seeds
from tinytrain.meta.bench.tuning import chosen, extended, same_grid, table, trial_label, trials

SHIPPED = sorted(path.stem for path in FOLDER.glob("*.yaml") if "." not in path.stem)
SIX = {"none", "last_layer", "full", "sparse_update", "tinytrain_published", "tinytrain"}
PACKS = {"gtsrb", "omniglot", "flowers12", "dtd10", "pacs_sketch"}


def backbones(matrix):
    names = {name for cell in matrix.cells for name in cell.backbones}
    return {name: Backbone(name, name, f"digest of {name}") for name in names}


@each("name", SHIPPED)
def test_shipped_matrices_are_read_and_never_tune_on_a_target(name):
    matrix, _ = load_matrix(name)
    assert matrix.name == name and expand(matrix, {}, backbones(matrix))
    if not (matrix.tuning or matrix.rates):  # policies keep their own rates
        return
    # A matrix without trials of its own takes the rates that those of another one gave.
    trials = matrix.tuning or load_matrix(matrix.rates.removesuffix(".rates.yaml"))[0].tuning
    assert not set(trials.packs) & {pack for cell in matrix.cells for pack in cell.packs}
    assert len(trials.grid) >= 4


def test_the_results_matrix_pairs_six_policies_on_100_episodes_of_five_packs_with_both_starts():
    matrix, _ = load_matrix("results")
    jobs = [j for j in expand(matrix, {}, backbones(matrix)) if j.sampler.name == "5-way 5-shot, 10 queries"]
    for backbone in ("mcunet-5fps", "mcunet-near"):
        for pack in PACKS:
            mine = [j for j in jobs if j.backbone.name == backbone and j.pack == pack]
            assert sum({e.label for e in j.entries} >= SIX for j in mine) >= 100


def test_what_is_wrong_is_named_with_what_is_allowed(tmp_path):
    wrong = [
        ({"cels": []}, "cels is"),
        ({"cells": [{**toybench.CELL, "sampler": {"kind": "metadataset"}}]}, "one of fixed, meta-dataset"),
        ({"memory": "much"}, "for example 1MB"),
        ({"policies": {"tinytrain": {"mac": "30%"}}}, "did you mean macs"),
        ({"cells": [{**toybench.CELL, "episodes": 0}]}, r"cells\[0\].episodes is 0"),
    ]
    for change, message in wrong:
        with pytest.raises(InputError, match=message):
            load_matrix(toybench.write(tmp_path, **change))


def test_tuning_on_a_target_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"signs of tuning\.packs is one of the 2 targets"):
        load_matrix(toybench.write(tmp_path, tuning={"backbone": "toy", "packs": ["glyphs", "signs"]}))


def test_a_label_carries_a_policy_its_limits_and_its_rate(tmp_path):
    policies = {"wide": {"policy": "tinytrain", "macs": "30%", "memory": "2MB"}}
    cells = [toybench.CELL | {"policies": ["none", "wide"]}]
    matrix, _ = load_matrix(toybench.write(tmp_path, policies=policies, memory="500kB", cells=cells))
    assert matrix.entry("wide", 2.0) == Entry("wide", "tinytrain", 2.0, 2_000_000, 0.3)
    assert matrix.entry("none") == Entry("none", "none", 1.0, 500_000, 0.15)


def test_the_same_episode_in_two_cells_is_one_job_with_all_policies(tmp_path):
    cells = [toybench.CELL, {**toybench.CELL, "policies": ["full", "none"], "episodes": 1}]
    matrix, _ = load_matrix(toybench.write(tmp_path, cells=cells))
    jobs = expand(matrix, {"full": 0.5}, backbones(matrix))
    labels = [[entry.label for entry in job.entries] for job in jobs]
    assert (
        labels
        == [["none", "last_layer", "tinytrain", "full"]] * 2 + [["none", "last_layer", "tinytrain"]] * 4
    )
    assert [job.episode for job in jobs] == [0, 0, 1, 1, 2, 2]
    assert [job.seed for job in jobs[::2]] == list(seeds(3))
    assert jobs[0].entries[-1].rate_scale == 0.5


def test_a_label_takes_the_rate_of_another_and_only_of_one_that_is_tuned(tmp_path):
    policies = {"l2": {"rate_of": "full"}}
    cells = [{**toybench.CELL, "policies": ["l2", "full", "last_layer"]}]
    matrix, _ = load_matrix(toybench.write(tmp_path, policies=policies, cells=cells))
    jobs = expand(matrix, {"full": 0.5, "last_layer": 2.0}, backbones(matrix))
    assert [entry.rate_scale for entry in jobs[0].entries] == [0.5, 0.5, 2.0]
    assert list(same_grid(matrix, (4, 2, 1, 0.5))) == ["full", "last_layer"]
    for wrong in ({"l2": {"rate_of": "ful"}}, policies | {"full": {"rate_of": "l2"}}):
        with pytest.raises(InputError, match="rate_of is"):
            load_matrix(toybench.write(tmp_path, policies=wrong, cells=cells))


def test_a_row_whose_name_no_cell_has_is_taken_for_a_mistyped_one(tmp_path):
    for rows in (
        {"policies": {"tinytrian": {"macs": "1%"}}},
        {"backbones": {"tyo": {"file": "x.safetensors"}}},
    ):
        with pytest.raises(InputError, match=r"\.(tinytrian|tyo) is in none of the \d+ cells; take one of"):
            load_matrix(toybench.write(tmp_path, **rows))


def test_a_backbone_may_be_for_tuning_alone_and_a_grid_has_different_factors(tmp_path):
    given = toybench.content(tmp_path)
    backbones = given["backbones"] | {"tuned": given["backbones"]["toy"]}
    tuning = given["tuning"] | {"backbone": "tuned"}
    matrix, _ = load_matrix(toybench.write(tmp_path, backbones=backbones, tuning=tuning))
    assert matrix.tuning.backbone == "tuned"
    with pytest.raises(UsageError, match="3 different factors; give at least 4"):
        same_grid(matrix, (1, 1, 2, 4))


def test_a_backbone_is_trained_from_one_that_is_run_as_well(tmp_path):
    backbones = {"toy": {"file": "toy.safetensors", "trained_from": "mcunet-6fps"}}
    with pytest.raises(InputError, match="trained_from is 'mcunet-6fps'; take one of"):
        load_matrix(toybench.write(tmp_path, backbones=backbones))
    assert load_matrix("offline")[0].starts["mbv2-meta"] == "mbv2-w0.35"


def test_the_results_matrix_tunes_every_policy_with_rates_of_its_own_on_at_least_four():
    matrix, _ = load_matrix("results")
    tuned = set(same_grid(matrix, matrix.tuning.grid))
    assert tuned == SIX - {"none"} | {"bias_only", "tinytl", "trady", "transductive"}


def with_best(best, grids):
    """Rates as found when accuracy falls with the distance from `best` of each label, in factors."""
    trial = trials(load_matrix("results")[0], grids)
    records = [
        {
            "label": trial_label(label, s),
            "pack": "leaves",
            "episode": k,
            "accuracy": {"after": 1 / (1 + abs(math.log2(s / best[label])))},
        }
        for label, grid in grids.items()
        for s in grid
        for k in range(2)
    ]
    return chosen(trial, records, grids, "code")


def test_the_grid_of_a_policy_goes_on_where_its_optimum_is_at_an_edge():
    best = {"full": 0.25, "sparse_update": 1, "trady": 4}
    grids = dict.fromkeys(best, (0.5, 1, 2))
    found = with_best(best, grids)
    assert {label: row.edge for label, row in found.policies.items()} == {
        "full": True, "sparse_update": False, "trady": True,
    }  # fmt: skip
    grids = extended(extended(grids, found), with_best(best, extended(grids, found)))
    assert grids == {
        "full": (0.125, 0.25, 0.5, 1, 2),
        "sparse_update": (0.5, 1, 2),
        "trady": (0.5, 1, 2, 4, 8),
    }
    found = with_best(best, grids)
    assert {label: (row.scale, row.best, row.edge) for label, row in found.policies.items()} == {
        label: (scale, scale, False) for label, scale in best.items()
    }
    assert found.grid == (0.125, 0.25, 0.5, 1, 2, 4, 8)
    assert [mean is None for mean in found.policies["sparse_update"].accuracy] == [True] * 2 + [False] * 3 + [
        True
    ] * 2
    assert "100.0*" in table(found) and "**" not in table(found)


@pytest.mark.parametrize(
    ("leads", "scale"),
    [
        ([0.2, -0.1, 0.1, 0.0], 1),  # +5 points of luck
        ([0.05, 0.06, 0.05, 0.06], 2),
        ([-0.05, -0.06, -0.05, -0.06], 1),
    ],
)
def test_a_policy_leaves_its_own_rates_only_for_a_lead_clear_of_zero(leads, scale):
    grids = {"full": (0.5, 1, 2)}
    records = [
        {"label": trial_label("full", s), "pack": pack, "episode": k,
         "accuracy": {"after": 0.5 + (lead if s == 2 else -0.2 if s == 0.5 else 0)}}
        for s in grids["full"] for pack in ("caltech101", "fsdd_logmel") for k, lead in enumerate(leads)
    ]  # fmt: skip
    found = chosen(trials(load_matrix("results")[0], grids), records, grids, "code").policies["full"]
    assert found.scale == scale
    assert (found.best, found.edge) == ((2, True) if sum(leads) > 0 else (1, False))


def test_what_is_done_is_not_pending(tmp_path):
    matrix, _ = load_matrix(toybench.write(tmp_path))
    jobs = expand(matrix, {}, backbones(matrix))
    left = pending(jobs, lambda run: run["label"] == "none" or run["pack"] == "signs")
    assert [(j.pack, [e.label for e in j.entries]) for j in left] == [
        ("leaves", ["last_layer", "tinytrain"])
    ] * 3


def test_a_part_of_a_matrix_keeps_what_was_asked_for(tmp_path):
    matrix, _ = load_matrix(toybench.write(tmp_path))
    (cell,) = narrowed(matrix, packs=("leaves",), policies=("none",), episodes=2).cells
    assert (cell.packs, cell.policies, cell.episodes) == (("leaves",), ("none",), 2)
    assert narrowed(matrix, episodes=100).cells == matrix.cells  # at most: never more than were planned
    two = load_matrix(toybench.write(tmp_path, cells=[{**toybench.CELL, "backbones": ["toy", "far"]}]))[0]
    assert [cell.backbones for cell in narrowed(two, backbones=("far",)).cells] == [("far",)]
    with pytest.raises(UsageError, match="no 'leafs' in its 2 packs: leaves, signs"):
        narrowed(matrix, packs=("leafs",), policies=("none",))
    apart = [toybench.CELL, {**toybench.CELL, "backbones": ["far"], "policies": ["full"]}]
    both = load_matrix(toybench.write(tmp_path, cells=apart))[0]
    assert len(narrowed(both, backbones=("toy", "far"), policies=("none", "full")).cells) == 2
    with pytest.raises(UsageError, match="'none' in no cell with the others"):
        narrowed(both, backbones=("far",), policies=("none", "full"))


def test_the_seed_list_has_600_different_seeds_and_says_when_it_ends():
    assert len(set(seeds(600))) == 600
    with pytest.raises(UsageError, match="601 episodes asked for; the list has 600"):
        seeds(601)


def test_rates_are_read_as_they_were_written_and_found_beside_the_matrix(tmp_path):
    rates = Rates(
        "toy", ("glyphs",), "small", 5, "abc", (0.5, 1.0), {"full": TunedRate(0.5, 0.5, True, (0.7, None))}
    )
    save_rates(tmp_path / "toy.rates.yaml", rates)
    assert read_rates(tmp_path / "toy.rates.yaml") == rates
    assert load_matrix(toybench.write(tmp_path, rates="toy.rates.yaml"))[1] == {"full": 0.5}
    assert load_matrix(toybench.write(tmp_path, rates="not-there.yaml"))[1] == {}
    (tmp_path / "toy.rates.yaml").write_text("grid: 3")
    with pytest.raises(InputError, match="backbone is 'missing'"):
        load_rates(tmp_path / "toy.rates.yaml")


@pytest.mark.parametrize("error", [UsageError("a", "b c"), BudgetError("d", "e", 7)])
def test_errors_come_home_from_worker_processes(error):
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))
