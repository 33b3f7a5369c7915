"""The study of estimates: tasks as described, a log that goes on, and figures that follow from its rows."""

import numpy as np
import pytest
from sourcetree import ROOT

from tinytrain.datasets import open_dataset
from tinytrain.meta.studies import estimate as study
from tinytrain.meta.studies.study import read_study


@pytest.fixture
def arguments(logged):
    return [*logged, "--packs", "signs", "--tasks", "1", "--policy", "last_layer"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(study, "WAYS", (2, 3))
    monkeypatch.setattr(study, "SHOTS", (4, 5))
    monkeypatch.setattr(study, "MOST_QUERIES", 4)


def test_tasks_have_shots_and_more_and_queries_of_other_images():
    dataset = open_dataset("signs")
    for task in range(5):
        episode, shots = study.drawn(dataset, 0, task)
        assert 4 <= shots <= 5 and set(episode.shots.tolist()) == {shots + study.MORE}
        assert not set(episode.support.names) & set(episode.query.names)
    assert study.drawn(dataset, 0, 1)[0].digest == study.drawn(dataset, 0, 1)[0].digest


def test_photos_are_the_chosen_images_in_the_classes_that_they_are_given():
    episode, _ = study.drawn(open_dataset("signs"), 0, 0)
    labels = np.roll(episode.support.labels, 1).astype(np.int32)
    chosen = np.array([0, 3, 7, 11])
    made = study.photos(episode, labels, chosen)
    given = dict(zip(made.names, made.labels, strict=True))
    assert given == {episode.support.names[i]: labels[i] for i in chosen}
    by_name = {name: i for i, name in enumerate(episode.support.names)}
    for i, name in enumerate(made.names):
        assert (made.read(i, 32) == episode.support.read(by_name[name], 32)).all()


def test_every_task_is_a_line_with_and_without_wrong_labels(arguments, rows, capsys):
    study.main(arguments)
    assert [(r["pack"], r["rate"], r["task"]) for r in rows()] == [("signs", 0.0, 0), ("signs", 0.2, 0)]
    for row in rows():
        e = row["estimate"]
        assert e["method"] == "cross-validation" and e["low"] <= e["accuracy"] <= e["high"]
        assert 0 <= row["truth"] <= 1 and row["truth"] == row["truth_whole"] and row["held_out"] == 0
    assert "| adapt | signs | 0% | 1 |" in capsys.readouterr().out


@pytest.mark.slow
def test_the_truth_is_about_right_labels_and_the_estimate_about_given_ones(arguments, rows, monkeypatch):
    monkeypatch.setattr(study, "wrong_labels", lambda labels, way, rate, *_: (labels + (rate > 0)) % way)
    study.main([*arguments, "--backbone", "tinytrain-small"])
    right, swapped = rows()
    assert right["truth"] > 0.8 and right["estimate"]["accuracy"] > 0.8
    assert swapped["truth"] < 0.2 and swapped["estimate"]["accuracy"] > 0.8, "nobody could see that"


def row(rate, truth, accuracy, low, high, **more):
    estimate = {"accuracy": accuracy, "low": low, "high": high}
    gain = {"gain": 0.1, "low": 0.0, "high": 0.2}
    made = {"pack": "signs", "rate": rate, "truth": truth, "truth_whole": truth, "truth_more": truth + 0.1}
    return made | {"estimate": estimate, "check": estimate, "left_out": 1.0, "five_more": gain} | more


def test_figures_are_those_of_the_rows():
    rows = [
        row(0.0, 0.8, 0.9, 0.7, 1.0),
        row(0.0, 0.6, 0.5, 0.2, 0.55),
        row(0.2, 0.7, None, None, None, five_more=None),
    ]
    lines = study.summary(rows)
    assert "| adapt | signs | 0% | 2 | 70.0 | 70.0 | +0.0 | 10.0 | 50% | 32.5 |" in lines
    assert "| adapt | signs | 20% | 0 | - | - | - | - | - | - |" in lines
    assert (
        "| leave-one-out of the adapted head | all | all | 3 | 70.0 | 100.0 | +30.0 | 30.0 | - | - |" in lines
    )
    assert "| all | all | 2 | 10.0 | 10.0 | +0.0 | 0.0 | 100% | 20.0 |" in lines


def test_the_log_of_the_published_figures_holds_what_they_claim():
    rows = read_study(ROOT / "results/estimate.jsonl")
    assert len({(r["pack"], r["rate"], r["task"]) for r in rows}) == len(rows) == 60
    assert len({tuple(r["settings"].items()) for r in rows}) == 1
    known = [r for r in rows if r["estimate"]["accuracy"] is not None]
    covered = [r["estimate"]["low"] <= r["truth"] <= r["estimate"]["high"] for r in known]
    assert len(known) >= 57 and np.mean(covered) >= 0.88
    for pack in {r["pack"] for r in rows}:
        for rate in study.RATES:
            mine = [r for r in known if (r["pack"], r["rate"]) == (pack, rate)]
            assert np.mean([r["estimate"]["accuracy"] - r["truth"] for r in mine]) < 0.1, (pack, rate)
