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
    assert found == {"n": 9, "refused": 4, "below": 9}


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


def test_a_burst_is_each_image_a_little_shifted_and_noisy_and_the_same_again():
    images = open_dataset("signs").images([[0, 1], [60]])
    burst, again = (study.in_frames(images, 3, 5) for _ in range(2))
    assert burst.labels.tolist() == [0] * 6 + [1] * 3 and len(set(burst.names)) == 9
    for i in range(9):
        frame, photograph = burst.image(i, 48).astype(float), images.image(i // 3, 48).astype(float)
        assert np.array_equal(frame, again.image(i, 48)) and not np.array_equal(frame, photograph)
        moved = [np.roll(photograph, (a, b), (0, 1)) for a in range(-2, 3) for b in range(-2, 3)]
        inside = [np.abs(frame - other)[2:-2, 2:-2].mean() for other in moved]
        assert min(inside) < study.NOISE, "within two pixels, and no more than the noise"
    assert not np.array_equal(burst.image(0, 48), burst.image(1, 48))


def test_bursts_and_photographs_are_adapted_to_with_each_head(logged, rows, capsys):
    given = ["--way", "3", "--shots", "2", "--queries", "2", "--episodes", "1", "--policy", "none"]
    assert study.main([*logged, "--packs", "signs,glyphs", *given, "--burst", "3", "--heads", "lda,knn"]) == 0
    found = [(row["pack"], row["head"], row["frames"]) for row in rows()]
    assert found == [(p, h, n) for p in ("signs", "glyphs") for h in ("lda", "knn") for n in (1, 3)]
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("| lda", "| knn"))]
    assert [line.split(" | ")[:4] for line in lines] == [["| lda", "2", "3", "2"], ["| knn", "2", "3", "2"]]


def test_bursts_and_what_was_run_before_without_them_are_two_tables_of_one_log(logged, capsys):
    given = ["--way", "3", "--shots", "2", "--queries", "2", "--episodes", "1", "--policy", "none"]
    for more in ([], ["--burst", "3", "--heads", "knn"]):
        assert study.main([*logged, "--packs", "signs,glyphs", *given, *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| 2 | all | 2 |") for line in lines) == 2 * 3, "also in the second run"
    assert sum(line.startswith("| knn | 2 | 3 | 2 |") for line in lines) == 1


def test_what_a_burst_refuses_more_is_paired_by_episode():
    def row(pack, episode, frames, own):
        kinds = {kind: {"n": 10, "refused": n} for kind, n in (("own", own), ("same", 4), ("other", own))}
        return {"pack": pack, "shots": 5, "episode": episode, "head": "lda", "frames": frames, **kinds}

    counts = {("a", 0): (1, 2), ("a", 1): (3, 4), ("b", 0): (0, 0), ("b", 1): (2, 2)}
    made = [row(p, k, n, own) for (p, k), both in counts.items() for n, own in zip((1, 5), both, strict=True)]
    half_done = row("b", 2, 1, 9)
    (line,) = study.summary([*made, half_done])[2:]
    assert line == "| lda | 5 | 5 | 4 | 15.0 ±30.4 | +5.0 ±0.0 | +0.0 ±0.0 | +5.0 ±0.0 |"
