"""The study of devices that lie: what it calls a lie is one, and its tables are means of its rows."""

import numpy as np
import pytest
from headdata import embeddings

from tinytrain import kernels
from tinytrain.delta.merge import merge
from tinytrain.meta.studies import trust as study


def test_lies_are_what_they_are_called_and_all_of_them_but_one_are_found():
    x, labels = embeddings(300, 24, way=5)
    table, parts = kernels.load(), [study._share(labels, k, 5) for k in range(5)]
    assert sorted(np.concatenate(parts)) == list(range(300))
    honest = [study._delta(table, x[part].astype("f4"), labels[part]) for part in parts]
    for name in study.LIES:
        liar = study._lying(honest[0], name)
        told, known = liar.head.moments, honest[0].head.moments
        times = int(name.partition(" x")[2] or 1)
        assert told.counts.sum() == times * known.counts.sum()
        assert ("scatter" in name) == np.array_equal(told.sums, times * known.sums)
        found = merge(table, [liar, *honest[1:]], list("abcde"), robust=True)
        assert found.outvoted == (() if "scatter" in name else ("a",)), name


def test_what_is_exported_with_noise_has_all_images_also_those_that_look_like_copies(logged, monkeypatch):
    counted = []

    def private(delta, *_):
        counted.append(delta.head.total)
        return delta

    monkeypatch.setattr(study, "private", private)
    monkeypatch.setattr("tinytrain.drift.refit.copies_among", lambda x, labels: np.arange(len(x)) % 2 == 1)
    options = "--packs signs --way 3 --shots 12 --queries 1 --clients 3 --episodes 1"
    assert study.main([*logged, *options.split()]) == 0
    assert counted == [36] * len(study.EPSILONS)


def test_a_run_goes_through_all_lies_and_its_tables_are_means_of_its_rows(logged, rows, capsys):
    options = "--packs signs --way 3 --shots 9 --queries 3 --clients 3 --episodes 1"
    assert study.main([*logged, *options.split()]) == 0
    (row,) = rows()
    assert row["lies"].keys() == {"honest", *study.LIES, *study.CAMERAS}
    assert list(row["noise"]) == ["inf", "8", "3", "1"] and all(0 <= v <= 1 for v in row["noise"].values())
    capsys.readouterr()
    other = {**row, "lies": dict(row["lies"]), "noise": dict.fromkeys(row["noise"], 0.5)}
    other["lies"]["flipped"] = {"merged": 0.25, "robust": None, "out": 0, "others": 0}
    row["lies"]["flipped"] = {"merged": 0.75, "robust": 0.5, "out": 1, "others": 1}
    lines = study.summary([row, other])
    (flipped,) = [line.split(" | ") for line in lines if line.startswith("| flipped |")]
    assert (flipped[1], flipped[3], flipped[5], flipped[6]) == ("50.0", "50.0", "100.0", "1.00")
    assert flipped[7] == "1 of 2 |"
    assert any(line.endswith(" | - | - | - | - | 1 of 1 |") for line in study.summary([other]))
    usual = pytest.approx(50 * row["noise"]["inf"] + 25, abs=0.06)
    assert float(lines[lines.index("|---|---|---|---|---|") + 1].split(" | ")[1]) == usual
