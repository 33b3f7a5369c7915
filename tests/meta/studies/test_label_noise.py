"""Wrong labels: how they are made, the log, going on from it, and the table."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each

from tinytrain.base.random_streams import rng_for
from tinytrain.meta.studies import label_noise as noise


@pytest.fixture
def arguments(logged):
    task = ["--way", "3", "--shots", "4", "--queries", "2"]
    return [*logged, "--packs", "signs", *task, "--policy", "last_layer"]


@each("rate", noise.RATES)
def test_so_many_labels_are_wrong_and_every_class_keeps_one_of_its_own(rate):
    labels = np.repeat(np.arange(5), 5)
    for seed in range(50):
        wrong = noise.wrong_labels(labels, 5, rate, rng_for(seed))
        changed = wrong != labels
        assert changed.sum() == round(rate * 25) and set(labels[~changed]) == set(range(5))


def test_every_case_is_a_line_and_a_stopped_run_goes_on_where_it_was(arguments, log, rows, capsys):
    noise.main([*arguments, "--episodes", "1"])
    first = rows()
    assert [r["case"] for r in first] == [f"symmetric {rate}" for rate in noise.RATES]
    for row in first:
        kept = {"adapted": "adapted", "head": "before", "cosine": "unadapted"}[row["kept"]]
        assert row["result"] == row[kept] and row["accepted"] == (row["kept"] != "cosine")
    with open(log, "a") as file:
        file.write('{"pack": "sig')  # a kill in the middle of a line
    noise.main([*arguments, "--episodes", "2"])
    assert rows()[:4] == first and len(rows()) == 8
    assert "| all | symmetric 0.4 | 2 |" in capsys.readouterr().out


def test_rows_of_other_options_neither_count_as_done_nor_get_into_the_same_figures(arguments, rows, capsys):
    suspects = [*arguments, "--episodes", "1", "--parts", "suspects"]
    for options in ([], ["--seed", "2"], ["--budget", "2MB"], []):
        capsys.readouterr()
        noise.main([*suspects, *options])
    assert len(rows()) == 3 * len(noise.NAMED_RATES)
    printed = capsys.readouterr().out
    assert printed.count("| all | 5% | 1 |") == 3
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


def test_figures_are_those_of_the_rows():
    def row(case, **more):
        return {"pack": "signs", "case": case, "episode": 0} | more

    base = {"unadapted": 0.5, "before": 0.6}
    made = [
        row("symmetric 0.0", accepted=True, adapted=0.7, result=0.7, **base),
        row("symmetric 0.0", accepted=False, adapted=None, result=0.5, **base),
    ]
    lines = noise.summary(made)
    (noisy,) = [x for x in lines if x.startswith("| signs | symmetric")]
    cells = [c.strip() for c in noisy.strip("|").split("|")]
    assert cells[2:8] == ["2", "50.0%", "50.0", "60.0", "60.0", "60.0"]
    assert cells[8].startswith("+10.0 ") and cells[8].endswith(", +1.0")
    assert cells[10].startswith("+0.0 ") and cells[10].endswith(", -9.0")


def test_only_the_figures_are_printed_when_only_they_are_asked_for(arguments, log, capsys):
    log.write_text(
        json.dumps(
            {
                "pack": "x",
                "case": "suspects 0.2",
                "episode": 0,
                "settings": {},
                "images": 10,
                "suspects": 4,
                "wrong": 2,
                "wrong_suspects": 1,
            }
        )
        + "\n"
    )
    noise.main([*arguments, "--summary"])
    assert "| x | 20% | 1 | 40.0% | 25.0% | 50.0% |" in capsys.readouterr().out


def test_a_part_that_is_none_is_a_usage_error(arguments, capsys):
    assert noise.main([*arguments, "--parts", "outliers"]) == 2
    assert "'outliers'" in capsys.readouterr().err
