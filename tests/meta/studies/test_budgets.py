"""What the advised budgets are good for: a small run of the study."""

import json

import pytest

from tinytrain.meta.studies import budgets


@pytest.fixture
def study(toy_file):
    tasks = ["--data", "leaves,signs", "--way", "2,3", "--shots", "3,2", "--queries", "2"]
    return [*tasks, "--backbone", toy_file, "--policy", "last_layer", "--episodes", "1"]


@pytest.mark.slow
def test_every_task_has_a_row_for_each_advised_budget_in_rising_order(study, capsys):
    assert budgets.main([*study, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    names = [(row["task"], row["budget"]) for row in rows]
    kinds = ("smallest", "sensible", "everything")
    assert names == [(task, kind) for task in ("leaves, 2 x 3", "signs, 3 x 2") for kind in kinds]
    for least, sensible, whole in (rows[:3], rows[3:]):
        assert least["bytes"] < sensible["bytes"] <= whole["bytes"]
        assert least["parameters"] < sensible["parameters"] == whole["parameters"]
        assert least["before"] == whole["before"] and whole["sets"] > 1
    cells = budgets.cells(rows[0])
    assert len(cells) == len(budgets.HEADINGS) and cells[6] == f"{rows[0]['before']:.1%}"


def test_figures_are_means_of_episodes():
    same = {"backbone": "toy", "task": "leaves, 2 x 3", "budget": "smallest"}
    found = budgets.averaged([same | {"bytes": 1, "after": 0.5}, same | {"bytes": 2, "after": 1.0}])
    assert found == same | {"bytes": 1.5, "after": 0.75}


def test_tasks_without_a_way_are_refused(study, capsys):
    assert budgets.main([*study, "--way", "2"]) == 2
    assert "one value for each task" in capsys.readouterr().err
