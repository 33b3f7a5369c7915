"""Classes step by step: the figures of known answers, and that forgetting and its absence are seen."""

import numpy as np
import pytest
from sourcetree import ROOT

from tinytrain.meta.studies import continual as study
from tinytrain.meta.studies.study import read_study
from tinytrain.pipeline.head_tasks import made_up
from tinytrain.pipeline.toy import toy_episode, toy_network

WAY, SIZE = 10, 24
TARGETS = {"gtsrb", "omniglot", "flowers12", "dtd10", "pacs_sketch"}


@pytest.fixture
def embedded(monkeypatch):
    """Clear classes: what is lost is lost by the method."""
    drawn = toy_episode(way=WAY, shots=5, queries=8)
    found = study.Embedded(toy_network(), drawn)
    for name, shots, seed in (("support", 5, 0), ("query", 8, 1)):
        task = made_up(WAY, SIZE, shots, seed)
        rows = task.embeddings[np.argsort(task.labels, kind="stable")]
        monkeypatch.setattr(found, name, rows)
    return found


def figures(found, answers):
    labels, steps = found.drawn.query.labels, found.steps
    by_step = [study._by_step(row, labels, steps[: k + 1]) for k, (row, _) in enumerate(answers)]
    return study._figures({"accuracies": by_step}, [len(s) for s in steps])


@pytest.mark.parametrize("head", ["lda", "cosine", "mild-lda"])
def test_a_head_that_learns_from_a_stream_keeps_what_it_knew_and_the_plain_last_layer_does_not(
    embedded, head
):
    _, joint, lost = figures(embedded, embedded.joint("lda"))
    _, last, forgetting = figures(embedded, embedded.stream(head))
    assert last >= joint - 1 and forgetting <= lost + 1
    _, plain, gone = figures(embedded, embedded.sgd())
    assert plain < joint - 15 and gone > 15, "it collapses"


def test_the_figures_are_those_of_known_accuracies():
    method = {"accuracies": [[1.0], [0.8, 0.6], [0.9, 0.5, 0.7]]}
    average, last, forgetting = study._figures(method, [2, 2, 2])
    assert average == pytest.approx(100 * (1.0 + 0.7 + 0.7) / 3) and last == pytest.approx(70)
    assert forgetting == pytest.approx(100 * ((1.0 - 0.9) + (0.6 - 0.5)) / 2)


def test_every_class_comes_in_one_step():
    for way in (6, 7, 10, 12):
        steps = study.dealt_classes(way)
        assert len(steps) == study.STEPS and np.concatenate(steps).tolist() == list(range(way))
        assert len(steps[0]) >= 2


@pytest.mark.parametrize("part", ["heads", "adapted"])
def test_a_draw_is_a_line_with_every_method_step_by_step(part, logged, rows, capsys):
    words = ["--packs", "leaves", "--part", part, "--way", "6", "--shots", "2", "--queries", "2"]
    assert study.main([*logged, *words, "--seeds", "1"]) == 0
    (row,) = rows()
    assert row["seed"] == 0 and study.JOINT[part] in row["methods"]
    for method in row["methods"].values():
        assert [len(step) for step in method["accuracies"]] == [1, 2, 3, 4, 5] and method["bytes"] > 0
    assert f"| {study.JOINT[part]} | 1 |" in capsys.readouterr().out


def test_figures_can_be_those_of_some_packs_alone(capsys):
    log = str(ROOT / "results/continual.jsonl")
    assert study.main(["--summary", ",".join(sorted(TARGETS)), "--out", log]) == 0
    shown = capsys.readouterr().out
    assert all(f"{pack}:" in shown for pack in TARGETS) and "leaves:" not in shown


def test_no_target_of_the_benchmarks_decides():
    assert not TARGETS & set(study.DOMAINS.split(","))


def test_the_figures_of_the_project_follow_from_its_log(capsys):
    """With what they claim: streams of LDA lose nothing, features of all images next to nothing."""
    assert study.main(["--summary", "--out", str(ROOT / "results/continual.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert all(f"{pack}:" in shown for pack in study.DOMAINS.split(","))
    rows = read_study(ROOT / "results/continual.jsonl")
    targets = [row for row in rows if row["pack"] in TARGETS]
    assert {row["pack"] for row in targets} == TARGETS

    def lost(part, name):
        mine = [row for row in targets if row["part"] == part]
        sizes = [list(map(len, study.dealt_classes(row["way"]))) for row in mine]
        methods = ((row["methods"][n] for row in mine) for n in (study.JOINT[part], name))
        (_, best, least), (_, last, gone) = (
            np.mean([study._figures(m, s) for m, s in zip(found, sizes, strict=True)], axis=0)
            for found in methods
        )
        return best - last, gone - least

    behind, beyond = lost("heads", "stream slda")
    assert behind <= 1 and beyond <= 1
    behind, beyond = lost("adapted", "adapted, replay 5")
    assert behind <= 2.8 and beyond <= 1
    behind, beyond = lost("heads", "last layer, SGD")
    assert behind > 20 and beyond > 20
