"""Strangers refused and confidence: the figures of known scores, and a small run of the study."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tinytrain.datasets import open_dataset
from tinytrain.heads.out_of_distribution import Limit
from tinytrain.meta.studies import strangers as study
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget

PACKS = "signs,leaves,glyphs"


def test_the_area_is_that_of_scikit_learn_also_with_ties():
    rng = np.random.default_rng(0)
    own, strangers = rng.integers(3, 12, 40).astype(float), rng.integers(0, 9, 25).astype(float)
    expected = roc_auc_score(np.repeat([1, 0], [40, 25]), np.concatenate([own, strangers]))
    assert study.area_under_roc(own, strangers) == pytest.approx(expected, rel=1e-12)


def row_of(sure, right):
    """A row with predictions of two classes; class 0 is right where `right` is."""
    return {"bins": study.bins(np.stack([sure, 1 - sure], axis=1), np.where(right, 0, 1))}


def test_the_calibration_error_is_the_weighted_distance_of_confidence_and_accuracy_in_bins():
    sure = np.array([0.95, 0.95, 0.55, 0.55, 1.0])
    rows = [row_of(sure[:3], np.array([1, 1, 1], bool)), row_of(sure[3:], np.array([0, 1], bool))]
    error, confidence, accuracy = study.calibration_error(rows)
    # Of 0.95, 0.95 and 1.0 all are right, of 0.55 half.
    assert error == pytest.approx((0.1 + 0.1) / 5)
    assert (confidence, accuracy) == (pytest.approx(0.8), pytest.approx(0.8))
    assert study.calibration_error([row_of(np.ones(4), np.zeros(4, bool))])[0] == 1


def test_predictions_that_are_right_as_often_as_they_say_have_next_to_no_error():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1, 100_000)
    right = rng.uniform(size=len(sure)) < sure
    assert study.calibration_error([row_of(sure, right)])[0] < 0.01
    assert study.calibration_error([row_of(np.sqrt(sure), right)])[0] > 0.05


def test_refused_are_the_images_below_the_limit():
    episode = toy_episode()
    delta = adapt(toy_network(), episode, Budget(500_000), "none", 0).delta
    embeddings = np.random.default_rng(0).standard_normal((9, delta.head.embedding_size)).astype("f")
    scale = delta.head.limit.scale
    middle = float(np.sort(study.energies(delta, embeddings))[3:5].mean())
    halved = replace(delta, head=replace(delta.head, limit=Limit(scale, middle), temperature=1e6))
    found = study.counts(halved, embeddings)
    assert found == {"n": 9, "refused": 4, "uncertain": 5, "below": 9}


@pytest.fixture
def arguments(logged):
    given = ["--way", "3", "--shots", "2,1", "--queries", "2", "--episodes", "1", "--policy", "last_layer"]
    return [*logged, "--packs", PACKS, *given]


def test_an_episode_is_a_row_with_its_own_images_and_two_kinds_of_strangers(arguments, rows, capsys):
    assert study.main(arguments) == 0
    rows = rows()
    assert [(row["shots"], row["pack"]) for row in rows] == [(k, p) for k in (2, 1) for p in PACKS.split(",")]
    for row in rows:
        assert [row[kind]["n"] for kind in ("own", "same", "other")] == [6, 4, 4]
        assert sum(n for n, _, _ in row["bins"]) == 6 and 0 <= row["same"]["area"] <= 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("| 2", "| 1"))]
    assert len(lines) == 2 * (2 * 3 + 3), "two kinds for each pack, three for all together"


def test_strangers_of_other_packs_are_of_each_of_them(arguments):
    args = study.main.parser().parse_args(arguments)
    names = [name for images in study.others(open_dataset("signs"), args, 0) for name in images.names]
    assert len(names) == 4 and len(set(names)) == 4
    assert {name.split("/")[0] for name in names} == {"leaves", "glyphs"}
