"""Clients that differ: every image is dealt to one of them, and merged sums are those of all images."""

import numpy as np
import pytest
from cases import each

from tinytrain.meta.studies import federated as study

LABELS = np.repeat(np.arange(6), 10)


def dealt(split, seed=0):
    return study.dealt(split, LABELS, 3, np.random.default_rng(seed))


@each("split", study.SPLITS)
def test_every_image_is_dealt_to_one_client(split):
    for seed in range(5):
        parts = dealt(split, seed)
        assert np.sort(np.concatenate(parts)).tolist() == list(range(60)) and min(map(len, parts)) > 0


def test_splits_are_what_they_are_called():
    ways = {split: [len({*LABELS[part].tolist()}) for part in dealt(split)] for split in study.SPLITS}
    assert ways["classes"] == [2, 2, 2] and ways["single"] == [1] * 6 and ways["shift"] == [6, 6, 6]
    assert [len(part) for part in dealt("quantity")] == [9, 17, 34]

    def uneven(split):
        """How far clients are from an even share of each class, over many draws."""
        draws = [np.bincount(LABELS[part], minlength=6) for seed in range(30) for part in dealt(split, seed)]
        return np.std(draws)

    assert uneven("dirichlet-0.1") > 1.3 * uneven("dirichlet-1") > 1.3 * uneven("shift")


def test_average_is_by_images():
    ones, fours = ({"1.bias": np.full(3, value, "f")} for value in (1, 4))
    found = study.average([ones, fours], [np.arange(20), np.arange(10)])
    assert np.allclose(found["1.bias"], 2) and found["1.bias"].dtype == np.float32


@pytest.mark.parametrize("split", ["classes", "shift"])
def test_a_job_is_a_line_with_every_method_and_sums_are_those_of_all_images(split, logged, rows, capsys):
    small = "--way 4 --shots 3 --queries 2 --clients 2 --rounds 2 --steps 1 --episodes 1"
    assert study.main([*logged, "--packs", "leaves", "--splits", split, *small.split()]) == 0
    (row,) = rows()
    assert row["accuracy"].keys() == {*study.METHODS} and row["clients"] == 2
    assert row["accuracy"]["sums"] == row["accuracy"]["joint head"]
    assert f"| {split} |" in capsys.readouterr().out


def test_without_rounds_a_job_trains_nothing(logged, rows):
    small = "--packs leaves --splits shift --way 4 --shots 3 --queries 2 --clients 2 --rounds 0 --episodes 1"
    assert study.main([*logged, *small.split()]) == 0
    assert rows()[0]["accuracy"].keys() == {"alone", "sums", "joint head"}


def test_differences_have_an_interval_also_if_there_is_one_task_of_each_pack():
    values = (("a", 0.5, 0.6), ("b", 0.5, 0.8))
    rows = [{"pack": p, "split": "classes", "accuracy": {"sums": x, "joint head": y}} for p, x, y in values]
    assert "| sums - joint head | -20.0 ±127.1 |" in study.summary(rows)
    assert "| sums - joint head | -20.0 ±0.0 |" in study.summary([*rows, *rows])


def test_no_target_of_the_benchmarks_decides():
    targets = {"gtsrb", "omniglot", "flowers12", "dtd10", "pacs_sketch"}
    assert not targets & {*study.GENERATED.split(","), study.PLANNED_ON}
