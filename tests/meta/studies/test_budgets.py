"""What the advised budgets are good for: a small run of the study."""

import json

import pytest

from tinytrain.meta.studies import budgets
from tinytrain.network.file import save_network
from tinytrain.pipeline.toy import toy_network


@pytest.fixture
def study(tmp_path):
    save_network(toy_network(), tmp_path / "toy.safetensors")
    tasks = ["--data", "leaves,signs", "--way", "2,3", "--shots", "3,2", "--queries", "2"]
    backbone = ["--backbone", str(tmp_path / "toy.safetensors")]
    return [*tasks, *backbone, "--policy", "last_layer", "--episodes", "2"]


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
    assert budgets.main(study) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 6


def test_tasks_without_a_way_are_refused(study, capsys):
    assert budgets.main([*study, "--way", "2"]) == 2
    assert "one value for each task" in capsys.readouterr().err
