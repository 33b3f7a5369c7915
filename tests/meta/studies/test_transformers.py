"""The study of transformers: which rows its forms train, and what its table counts."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from toygraphs import GRAPHS

from tinytrain.base.errors import UsageError
from tinytrain.meta.studies import transformers as study
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode
from tinytrain.plan.budget import Budget
from tinytrain.policies.tinytrain import inspected


@pytest.fixture(scope="module")
def network():
    return GRAPHS["tokens"]()


def adapted_by(network, seen):
    """``adapted(policy)`` of the study, whose reports are added to `seen`."""

    def adapted(policy, budget=study.ROWS_BUDGET):
        seen.append(adapt(network, toy_episode(queries=2), budget, policy, 0, force=True))
        return seen[-1]

    return adapted


def rows_of(report):
    """Pairs (layer, row) of which weights were trained."""
    return {(s.layer, int(c)) for s in report.delta.slices if s.part == "weight" for c in s.channels}


def test_learning_rows_are_those_that_moved_most_when_every_row_was_trained(network):
    seen = []
    adapted = adapted_by(network, seen)
    adapted(study.learning(adapted, network))
    primed, learnt = seen
    every = [(i, c) for i in inspected(network) for c in range(network.layers[i].cout)]
    assert rows_of(primed) == set(every)
    weights = {s.layer: s.values for s in primed.delta.slices if s.part == "weight"}
    moved = {(i, c): np.abs(weights[i][:, c] - network.float_weight(i)[:, c]).sum() for i, c in every}
    first = sorted(every, key=moved.__getitem__, reverse=True)[: round(0.4 * len(every))]
    assert rows_of(learnt) == set(first)


def test_as_many_rows_are_trained_by_fisher_information_and_at_random_but_others(network):
    adapted = adapted_by(network, [])
    fisher, random = (rows_of(adapted(p)) for p in (study.FISHER, study.at_random(network, 5)))
    assert len(fisher) == len(random) == round(0.4 * len(rows_of(adapted(study.EVERY))))
    assert fisher != random == rows_of(adapted(study.at_random(network, 5)))


def test_each_form_adapts_by_its_policy_and_those_of_rows_with_memory_for_every_row(network, monkeypatch):
    used = []

    def noted(network, drawn, budget, policy, *more, **how):
        used.append((policy.name, budget))
        return adapt(network, drawn, budget, policy, *more, **how)

    monkeypatch.setattr(study, "adapt", noted)
    for name in (*study.ROW_FORMS, "none_lda"):
        study.accuracy_of(network, toy_episode(queries=2), name, SimpleNamespace(budget="1MB"), 0)
    rows = ("every", "fisher", "priming", "learning", "random")
    assert used == [*((name, study.ROWS_BUDGET) for name in rows), ("none_lda", Budget(10**6))]


def test_a_form_beside_is_of_the_other_network_and_needs_it(logged, log, rows, toy8_file, capsys):
    task = ["--packs", "signs", "--way", "3", "--shots", "2", "--queries", "4", "--episodes", "1"]
    assert study.main([*logged, *task, "--forms", "none,beside/none", "--beside", toy8_file]) == 0
    assert study.main(["--backbone", toy8_file, "--out", str(log), *task, "--forms", "none"]) == 0
    both, alone = ([row["forms"] for row in part] for part in (rows()[:1], rows()[1:]))
    beside = [found["beside/none"] for found in both]
    assert beside == [found["none"] for found in alone] != [found["none"] for found in both]
    assert study.main([*logged, *task, "--forms", "beside/none"]) == 2
    assert "beside/none needs another network; give it with --beside" in capsys.readouterr().err


@each("name", ["nothing", "beside/nothing"])
def test_a_form_is_a_policy_or_says_which_rows(name):
    assert [study.form(known) for known in ("learning", "beside/none_lda")] == ["learning", "none_lda"]
    with pytest.raises(UsageError, match="nothing"):
        study.form(name)


def test_the_table_says_in_how_many_seeds_a_form_is_above():
    leads = {0: (0.1, 0.1), 1: (0.2, -0.1), 2: (-0.1, 0.0)}
    rows = [
        {"pack": "signs", "seed": seed, "episode": k,
         "forms": {"random": {"accuracy": 0.5}, "learning": {"accuracy": 0.5 + lead}}}
        for seed, both in leads.items() for k, lead in enumerate(both)
    ]  # fmt: skip
    *_, random, learning = study.summary(rows)
    assert "| 0 of 3 | 6 |" in random and "| 2 of 3 | 6 |" in learning and "+3.33" in learning
