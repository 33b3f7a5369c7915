"""Accuracy against seconds: a small run of the study, and the figures of known rows."""

import pytest
from cases import each

from tinytrain.base.errors import UsageError
from tinytrain.meta.studies import seconds as study


def test_an_episode_is_a_line_with_what_each_time_was_spent_on(logged, rows, tmp_path, capsys):
    task = ["--packs", "signs", "--way", "3", "--shots", "2", "--queries", "2", "--episodes", "1"]
    forms = ["--forms", "lda,0.0001,20,20@15%", "--plot", str(tmp_path / "plot.svg")]
    assert study.main([*logged, *task, *forms]) == 0
    (row,) = rows()
    head, short, long, fewer = row["forms"].values()
    assert head["steps"] == short["steps"] == 0 and short["macs"] is None and short["used"] > 0.0001
    assert long["steps"] > 0 and long["macs"] == 0.3 and fewer["macs"] == 0.15 and long["used"] < 20
    assert "1 x 30%" in capsys.readouterr().out and "<svg" in (tmp_path / "plot.svg").read_text()


def row(pack, **accuracies):
    fact = {"used": 1.0, "macs": 0.15, "steps": 10}
    return {"pack": pack, "forms": {name: fact | {"accuracy": a} for name, a in accuracies.items()}}


def test_points_are_above_the_head_alone_of_the_same_episode():
    rows = [row("a", lda=0.5, **{"1": 0.6}), row("b", lda=0.9, **{"1": 0.9})]
    line = study.summary(rows)[3]
    assert "| 1 | 60.0 | 90.0 | 75.0 | +5.00 |" in line


@each("name", ["cosine", "0", "2@", "2@none"])
def test_a_form_that_does_not_exist_is_refused(name):
    with pytest.raises(UsageError):
        study.form(name)
