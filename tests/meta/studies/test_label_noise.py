"""Wrong labels and planted outliers: how they are made, the log, going on from it, and the table."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import open_dataset
from tinytrain.meta.studies import label_noise as noise


@pytest.fixture
def arguments(logged):
    task = ["--way", "3", "--shots", "4", "--queries", "2"]
    return [*logged, "--packs", "signs", *task, "--policy", "last_layer"]


@each("pattern", ["symmetric", "pairs"])
@each("rate", noise.RATES)
def test_so_many_labels_are_wrong_and_every_class_keeps_one_of_its_own(pattern, rate):
    labels = np.repeat(np.arange(5), 5)
    for seed in range(50):
        wrong = noise.wrong_labels(labels, 5, rate, pattern, rng_for(seed))
        changed = wrong != labels
        assert changed.sum() == round(rate * 25) and set(labels[~changed]) == set(range(5))
        if pattern == "pairs":
            assert ((wrong - labels)[changed] % 5 == 1).all()


def test_an_outlier_is_one_image_whose_class_is_another_or_none_of_the_episode(arguments):
    args, dataset = noise.main.parser().parse_args(arguments), open_dataset("signs")
    for kind in noise.OUTLIERS:
        for index in range(10):
            episode, planted = noise.with_outlier(dataset, args, kind, index)
            true = [
                dataset.class_names[dataset.labels[list(dataset.names).index(n)]]
                for n in episode.support.names
            ]
            given = [episode.class_names[label] for label in episode.support.labels]
            assert [k for k in range(12) if true[k] != given[k]] == [planted]
            assert (true[planted] in episode.class_names) == (kind == "mislabelled")
            assert len(episode.query) == 0


def test_every_case_is_a_line_and_a_stopped_run_goes_on_where_it_was(arguments, log, rows, capsys):
    noise.main([*arguments, "--episodes", "1"])
    first = rows()
    assert [r["case"] for r in first] == [*(f"symmetric {rate}" for rate in noise.RATES), *noise.OUTLIERS]
    for row in first[:4]:
        assert row["result"] == (row["adapted"] if row["accepted"] else row["unadapted"])
    with open(log, "a") as file:
        file.write('{"pack": "sig')  # a kill in the middle of a line
    noise.main([*arguments, "--episodes", "2"])
    assert rows()[:6] == first and len(rows()) == 12
    printed = capsys.readouterr().out
    assert "| all | symmetric 0.4 | 2 |" in printed and "| signs | off-topic | 2 |" in printed


def test_rows_of_other_options_neither_count_as_done_nor_get_into_the_same_figures(arguments, rows, capsys):
    outliers = [*arguments, "--episodes", "1", "--parts", "outliers"]
    for options in ([], ["--seed", "2"], ["--budget", "2MB"], []):
        capsys.readouterr()
        noise.main([*outliers, *options])
    assert len(rows()) == 3 * len(noise.OUTLIERS)
    printed = capsys.readouterr().out
    assert printed.count("| all | off-topic | 1 |") == 3
    assert all(
        f"budget {b}, way 3, shots 4, queries 2, seed {s}" in printed for b, s in (("2MB", 1), ("1MB", 2))
    )


def test_suspects_are_counted_with_those_of_them_that_are_wrong(arguments, rows, capsys, monkeypatch):
    def named(_network, episode):
        return SimpleNamespace(suspects=[SimpleNamespace(index=k) for k in range(len(episode.support))])

    monkeypatch.setattr(noise, "check", named)
    noise.main([*arguments, "--episodes", "2", "--parts", "suspects", "--shots", "20"])
    counted = [(r["images"], r["suspects"], r["wrong"], r["wrong_suspects"]) for r in rows()]
    assert counted == [(60, 60, wrong, wrong) for wrong in (0, 3, 12)] * 2
    printed = capsys.readouterr().out
    assert "| all | 0% | 2 | 100.0% | 0.0% | - |" in printed
    assert "| all | 20% | 2 | 100.0% | 20.0% | 100.0% |" in printed


def test_outliers_alone_need_no_training(arguments, rows):
    noise.main([*arguments, "--episodes", "2", "--parts", "outliers"])
    assert [r["case"] for r in rows()] == [*noise.OUTLIERS] * 2


def test_figures_are_those_of_the_rows():
    def row(case, **more):
        return {"pack": "signs", "case": case, "episode": 0} | more

    base = {"unadapted": 0.5, "before": 0.6}
    made = [
        row("symmetric 0.0", accepted=True, adapted=0.7, result=0.7, **base),
        row("symmetric 0.0", accepted=False, adapted=None, result=0.5, **base),
        row("off-topic", place=0, suspects=3),
        row("off-topic", place=None, suspects=2),
    ]
    lines = noise.summary(made)
    (noisy,) = [x for x in lines if x.startswith("| signs | symmetric")]
    cells = [c.strip() for c in noisy.strip("|").split("|")]
    assert cells[2:8] == ["2", "50.0%", "50.0", "60.0", "60.0", "60.0"]
    assert cells[8].startswith("+10.0 ") and cells[8].endswith(", +1.0")
    assert cells[10].startswith("+0.0 ") and cells[10].endswith(", -9.0")
    assert "| signs | off-topic | 2 | 50.0% | 50.0% | 50.0% | 2.0 |" in lines


def test_only_the_figures_are_printed_when_only_they_are_asked_for(arguments, log, capsys):
    log.write_text(
        json.dumps(
            {"pack": "x", "case": "off-topic", "episode": 0, "settings": {}, "place": 1, "suspects": 2}
        )
        + "\n"
    )
    noise.main([*arguments, "--summary"])
    assert "| x | off-topic | 1 | 100.0% | 0.0% | 100.0% | 1.0 |" in capsys.readouterr().out
