"""Confidence against accuracy: the figures of known predictions, and the table of a small run."""

import json

import numpy as np
import pytest

from tinytrain.datasets import open_dataset
from tinytrain.meta.studies import calibration as confidence
from tinytrain.network.file import save_network
from tinytrain.pipeline.toy import toy_network


def test_the_calibration_error_is_the_weighted_distance_of_confidence_and_accuracy_in_bins():
    sure = np.array([0.95, 0.95, 0.55, 0.55, 1.0])
    assert confidence.calibration_error(sure, np.array([1, 1, 1, 0, 1], bool)) == pytest.approx(
        (0.1 + 0.1) / 5  # of 0.95, 0.95 and 1.0 all are right, of 0.55 half
    )
    assert confidence.calibration_error(np.ones(4), np.zeros(4, bool)) == 1


def test_predictions_that_are_right_as_often_as_they_say_have_next_to_no_error():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.2, 1, 100_000)
    right = rng.uniform(size=len(sure)) < sure
    assert confidence.calibration_error(sure, right) < 0.01
    assert confidence.calibration_error(np.sqrt(sure), right) > 0.05


def test_rejecting_splits_accuracy_into_that_of_the_answered_and_of_the_others():
    sure, right, outside = (
        np.array([0.9, 0.7, 0.6, 0.3]),
        np.array([1, 0, 1, 0], bool),
        np.array([0.5, 0.8]),
    )
    row = confidence.figures("none", 5, sure, right, outside, 0.6)
    assert (row["predictions"], row["accuracy"], row["confidence"]) == (4, 0.5, pytest.approx(0.625))
    assert (row["answered"], row["right of these"]) == (0.75, pytest.approx(2 / 3))
    assert (row["right of the others"], row["strangers rejected"]) == (0, 0.5)
    assert confidence.figures("none", 5, sure, right, outside, 0)["right of the others"] is None


def test_strangers_are_of_one_class_that_is_not_in_the_episode():
    args = confidence.parser().parse_args(["--way", "3", "--queries", "2"])
    episode, outside = confidence.with_outside(open_dataset("signs"), args, 2, 0)
    known = {name.split("/")[1] for name in (*episode.support.names, *episode.query.names)}
    others = {name.split("/")[1] for name in outside.names}
    assert known == set(episode.class_names) and len(known) == 3 and len(others) == 1 and not others & known
    assert (len(episode.support), len(episode.query), len(outside)) == (6, 6, 2)


def test_every_policy_and_number_of_shots_is_a_row(tmp_path, capsys):
    save_network(toy_network(), tmp_path / "net.safetensors")
    fixed = [
        "--backbone",
        tmp_path / "net.safetensors",
        "--packs",
        "signs,leaves",
        "--episodes",
        1,
        "--way",
        3,
    ]
    arguments = [str(a) for a in (*fixed, "--queries", 2, "--policies", "none,last_layer", "--shots", "1,3")]
    confidence.main(arguments)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        [f"| {policy}", shots, "12"] for policy in ("none", "last_layer") for shots in ("1", "3")
    ]
    confidence.main([*arguments, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 4 and all(0 < row["confidence"] <= 1 for row in rows)
