"""Heads on the same embeddings: a small run of the study, and the figures of known rows."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from headdata import unit32

from tinytrain import kernels as kernel_table
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.drift.refit import fitted
from tinytrain.heads.registry import HEADS
from tinytrain.meta.studies import heads as study
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_network
from tinytrain.plan.budget import Budget


@pytest.fixture
def arguments(logged):
    fixed = [*logged, "--packs", "leaves", "--way", 3, "--shots", "2,20", "--queries", 4, "--episodes", 2]
    return [str(a) for a in fixed]


@pytest.mark.slow
def test_a_job_is_a_line_and_a_head_joins_those_that_are_there(arguments, rows, capsys):
    assert study.main([*arguments, "--heads", "cosine,slda"]) == 0
    first = rows()
    assert [(r["shots"], r["head"]) for r in first] == [(s, h) for s in (2, 20) for h in ("cosine", "slda")]
    assert study.main([*arguments, "--heads", "cosine,slda,imprint"]) == 0
    assert rows()[:4] == first and len(rows()) == 6
    table = capsys.readouterr().out
    assert all(f"| {name} |" in table for name in ("cosine", "slda", "imprint")) and "us per update" in table
    for row in rows():
        method, size = HEADS[row["head"]], toy_network().embedding_size
        assert row["bytes"] == sum(b.nbytes for b in method.tensors(3, size, 3 * row["shots"]))
        assert row["microseconds"] > 0 and len(row["right"]) == 2
        assert all(0 <= row[kind] <= 1 for kind in ("own", "same pack")) and "other packs" not in row
    cosine, imprint = ([r["right"] for r in rows() if r["head"] == h] for h in ("cosine", "imprint"))
    assert cosine == imprint


@pytest.mark.slow
def test_episodes_are_those_of_an_adaptation(arguments):
    args, dataset = study.main.parser().parse_args(arguments), open_dataset("leaves")
    support, query = study.indices(dataset, args, 2, 1)
    drawn = sample_episode(dataset, args.way, 2, args.queries, args.seed, 1)
    for (numbers, labels), side in ((support, drawn.support), (query, drawn.query)):
        assert [dataset.names[i] for i in numbers] == list(side.names)
        assert (labels == side.labels).all()
    network = toy_network()
    row = study.run_job(network, dataset, args, 2, "slda")
    report = adapt(network, drawn, Budget(2**22), "none+slda", force=True)
    right = (report.answers.after == drawn.query.labels).mean()
    assert row["right"][1] == pytest.approx(right, abs=2.1 / len(drawn.query)), (
        "features are cached in 8 bits"
    )


def task(rng, way=3, images=6):
    """Classes that are easy to tell apart, and unit embeddings that are opposite to all of them."""
    centres = np.eye(way, 8)
    labels = np.repeat(np.arange(way), images).astype(np.int32)
    near = [centres[labels] + 0.1 * rng.standard_normal((len(labels), 8)) for _ in range(2)]
    support, queries = map(unit32, near)
    return study.Task(support, labels, queries, labels), np.repeat(
        -centres.sum(0)[None] / way**0.5, 5, axis=0
    )


@each("name", HEADS)
def test_every_head_has_its_facts(name):
    rng = np.random.default_rng(0)
    some, strangers = task(rng)
    head = fitted(HEADS[name], kernel_table.load(), some.support, some.labels)
    shown = {"own": some.queries, "same pack": np.float32(strangers), "other packs": np.zeros((0, 0))}
    found = study.facts(head, some, shown, rng, timed=True)
    assert study.accuracy(head, some.queries, some.truth) == 1 and found["one by one"] > 0.9
    assert "other packs" not in found
    assert head.tells_strangers == ("own" in found) == ("same pack" in found)
    assert found.get("same pack", 1) == 1 and found.get("own", 0) < 0.6
    assert ("kept" in found) == (name in ("knn", "rce")) and 0 < found.get("kept", 1) <= 1


def test_a_head_that_gives_no_verdicts_has_none():
    some, _ = task(np.random.default_rng(0))
    head = fitted(HEADS["lda"], kernel_table.load(), some.support, some.labels)
    mute = replace(head, limit=None)
    found = study.facts(mute, some, {"own": some.queries}, np.random.default_rng(0), timed=False)
    assert not {"own", "microseconds"} & found.keys()


def test_learning_one_by_one_is_learning_from_all_for_a_head_that_promises_it():
    some, _ = task(np.random.default_rng(1))
    noisy = replace(some, queries=some.queries + np.float32(np.random.default_rng(2).normal(0, 0.4, (18, 8))))
    kernels = kernel_table.load()
    head = fitted(HEADS["cosine"], kernels, noisy.support, noisy.labels)
    learnt = study.one_by_one(head, kernels, noisy, np.random.default_rng(3))
    assert learnt == study.accuracy(head, noisy.queries, noisy.truth) < 1


def test_strangers_come_from_all_other_packs_alike():
    packs = [np.full((9, 2), k, float) for k in range(3)]
    drawn = study.from_others(packs, np.random.default_rng(0))[:, 0]
    assert np.bincount(drawn.astype(int)).tolist() == [9, 8, 8]
    assert len(study.from_others([], np.random.default_rng(0))) == 0


def test_the_reference_is_batch_logistic_regression(arguments, rows, capsys):
    pytest.importorskip("sklearn")
    assert study.main([*arguments, "--heads", study.REFERENCE]) == 0
    (few, many) = rows()
    assert set(few) == set(many) == {"pack", "shots", "head", "settings", "right"}
    assert "| logistic-regression |" in capsys.readouterr().out


def test_times_are_medians_and_sizes_the_largest():
    found = study.averages([{"bytes": 1, "microseconds": t, "own": o} for t, o in ((1, 0), (9, 0), (2, 0.3))])
    assert found == {"bytes": 1, "microseconds": 2, "own": 0.1}
    assert study.averages([{"bytes": 4}, {"bytes": 7, "kept": 0.5}]) == {"bytes": 7, "kept": 0.5}


def test_a_table_has_the_mean_of_all_packs_and_leaves_out_what_was_not_run():
    def row(pack, head, right, **facts):
        return {"pack": pack, "shots": 1, "head": head, "right": right, "bytes": 10,
                "microseconds": 3.2, "one by one": 0.5, **facts}  # fmt: skip

    mine = [
        row("a", "x", [0.5, 0.7], own=0.1, kept=0.25),
        row("b", "x", [0.8, 0.8], own=0.2, kept=0.15),
        row("a", "y", [1.0, 1.0]),
    ]
    found = study.summary(mine)
    (x,) = [line for line in found[:6] if line.startswith("| x |")]
    (y,) = [line for line in found[:6] if line.startswith("| y |")]
    assert x.startswith("| x | 70.0 ±") and x.endswith("| 10 | 3 | 50.0 | 20.0 | 15.0 | - | - |")
    assert y.startswith("| y |  |") and y.endswith("| 50.0 | - | - | - | - |")


def test_a_pack_with_too_few_images_for_so_many_shots_is_left_out(arguments, rows, capsys):
    few = [*arguments, "--packs", "leaves,signs", "--heads", "cosine", "--shots", "2,500"]
    assert study.main(few) == 0
    assert {row["shots"] for row in rows()} == {2}
    made = [
        {"pack": p, "shots": k, "head": "x", "right": [0.5, 0.5]} for p, k in (("a", 1), ("b", 1), ("a", 9))
    ]
    head = study.summary(made)[2]
    assert "| 1 shot | 9 shots, 1 packs |" in head


def test_a_mistyped_head_is_named(arguments, capsys):
    assert study.main([*arguments, "--heads", "ldaa"]) == 2
    assert "did you mean lda?" in capsys.readouterr().err
