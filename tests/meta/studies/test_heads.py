"""Heads on the same embeddings: a small run of the study, and the figures of known rows."""

import pytest

from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.heads.registry import HEADS
from tinytrain.meta.studies import heads as study
from tinytrain.meta.studies.study import read_log
from tinytrain.network.file import save_network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_network
from tinytrain.plan.budget import Budget


@pytest.fixture
def arguments(tmp_path):
    save_network(toy_network(), tmp_path / "net.safetensors")
    fixed = ["--backbone", tmp_path / "net.safetensors", "--packs", "leaves", "--out", tmp_path / "log.jsonl"]
    return [str(a) for a in (*fixed, "--way", 3, "--shots", "2,20", "--queries", 4, "--episodes", 2)]


def rows(arguments):
    return read_log(study.parser().parse_args(arguments).out)


def test_a_job_is_a_line_and_a_head_joins_those_that_are_there(arguments, capsys):
    assert study.main([*arguments, "--heads", "cosine,slda"]) == 0
    first = rows(arguments)
    assert [(r["shots"], r["head"]) for r in first] == [(s, h) for s in (2, 20) for h in ("cosine", "slda")]
    assert study.main([*arguments, "--heads", "cosine,slda,imprint"]) == 0
    assert rows(arguments)[:4] == first and len(rows(arguments)) == 6
    table = capsys.readouterr().out
    assert all(f"| {name} |" in table for name in ("cosine", "slda", "imprint")) and "us per update" in table
    for row in rows(arguments):
        method, size = HEADS[row["head"]], toy_network().embedding_size
        assert row["bytes"] == sum(b.nbytes for b in method.tensors(3, size, 3 * row["shots"]))
        assert row["kept"] == sum(b.nbytes for b in method.tensors(3, size))
        assert row["microseconds"] > 0 and len(row["right"]) == 2
    cosine, imprint = ([r["right"] for r in rows(arguments) if r["head"] == h] for h in ("cosine", "imprint"))
    assert cosine == imprint


def test_episodes_are_those_of_an_adaptation(arguments):
    args, dataset = study.parser().parse_args(arguments), open_dataset("leaves")
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


def test_a_table_has_the_mean_of_all_packs_and_leaves_out_what_was_not_run():
    def row(pack, head, right):
        return {"pack": pack, "shots": 1, "head": head, "right": right, "bytes": 10, "kept": 2000,
                "microseconds": 3.2}  # fmt: skip

    found = study.summary([row("a", "x", [0.5, 0.7]), row("b", "x", [0.8, 0.8]), row("a", "y", [1.0, 1.0])])
    (x,) = [line for line in found[2].split("\n") if line.startswith("| x |")]
    (y,) = [line for line in found[2].split("\n") if line.startswith("| y |")]
    assert x.startswith("| x | 70.0 ±") and x.endswith("| 10 | 2,000 | 3 |") and y.startswith("| y |  |")


def test_a_mistyped_head_is_named(arguments, capsys):
    assert study.main([*arguments, "--heads", "ldaa"]) == 2
    assert "did you mean lda?" in capsys.readouterr().err
