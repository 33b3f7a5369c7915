"""What the advised budgets are good for: a small run of the study."""

import pytest

from tinytrain.meta.studies import budgets


@pytest.fixture
def study(logged):
    tasks = ["--packs", "leaves,signs", "--way", "2,3", "--shots", "3,2", "--queries", "2"]
    return [*logged, *tasks, "--policy", "last_layer", "--episodes", "1"]


@pytest.mark.slow
def test_every_task_has_each_advised_budget_in_rising_order(study, rows, capsys):
    assert budgets.main(study) == 0
    found = rows()
    assert [(r["pack"], r["way"], r["shots"]) for r in found] == [("leaves", 2, 3), ("signs", 3, 2)]
    for row in found:
        least, sensible, whole = (row["budgets"][kind] for kind in ("smallest", "sensible", "everything"))
        assert least["bytes"] < sensible["bytes"] <= whole["bytes"]
        assert least["parameters"] < sensible["parameters"] == whole["parameters"]
        assert least["before"] == whole["before"] and whole["sets"] > 1
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("| leaves, 2 x 3 |", "| signs, 3 x 2 |")) for line in lines) == 6


def test_figures_are_means_of_episodes():
    facts = {"bytes": 1, "parameters": 2, "sets": 0, "before": 0.5, "after": 0.5, "seconds": 1}
    task = {"pack": "leaves", "way": 2, "shots": 3}
    made = [task | {"budgets": {"smallest": facts | {"bytes": n, "after": n / 4}}} for n in (2, 4)]
    assert budgets.summary(made)[2:] == ["| leaves, 2 x 3 | smallest | 3 | 2 | 0.0 | 50.0% | 75.0% | 1.0 |"]


def test_tasks_without_a_way_are_refused(study, capsys):
    assert budgets.main([*study, "--way", "2"]) == 2
    assert "one value for each task" in capsys.readouterr().err
