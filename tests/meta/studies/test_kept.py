"""What adaptations keep: the tasks, the log, going on from it, and the figures."""

import numpy as np
import pytest
from cases import each

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import open_dataset
from tinytrain.meta.studies import kept
from tinytrain.pipeline.toy import toy_episode


@pytest.fixture
def arguments(logged):
    return [*logged, "--packs", "signs", "--policy", "last_layer", "--tasks", "1"]


def test_tasks_have_2_to_20_classes_and_3_to_30_images_and_enough_queries():
    dataset = open_dataset("signs")
    tasks = [kept.drawn(dataset, 3, k) for k in range(60)]
    ways, shots = ({size(task) for task in tasks} for size in (lambda t: t.n_way, lambda t: t.shots[0]))
    assert min(ways) == 2 and max(ways) > 15 and max(ways) <= 20
    assert min(shots) == 3 and max(shots) > 24 and max(shots) <= 30
    assert all(len(task.query) >= kept.LEAST * task.n_way for task in tasks)
    assert [task.digest for task in tasks] == [kept.drawn(dataset, 3, k).digest for k in range(60)]


@each("how, wrong", [("right", 0), ("wrong", 6), ("shuffled", None)])
def test_labels_are_right_wrong_in_part_or_shuffled_and_the_queries_keep_theirs(how, wrong):
    episode = toy_episode(3, 10, 4)
    found = kept.labelled(episode, how, rng_for(0, "labels"))
    changed = (found.support.labels != episode.support.labels).sum()
    assert changed == wrong if wrong is not None else changed > 10
    assert (np.bincount(found.support.labels) == 10).all() or how == "wrong"
    assert (found.query.labels == episode.query.labels).all()


def test_a_task_is_a_line_for_each_kind_of_labels_and_a_stopped_run_goes_on(arguments, rows, capsys):
    kept.main([*arguments, "--labels", "right"])
    first = rows()
    kept.main(arguments)
    assert rows()[:1] == first and [row["labels"] for row in rows()] == list(kept.LABELS)
    for row in rows():
        assert row["refused"] or row["kept"] != "cosine"
        assert row["result"] == pytest.approx(row["candidates"][row["kept"]])
        assert sum(row["named"].values()) == pytest.approx(1)
    assert "| shuffled | all | 1 |" in capsys.readouterr().out


def test_the_fair_regret_of_candidates_that_are_equally_good_is_0_in_the_mean_and_that_of_the_worst_is_not():
    rng, equal, worst = rng_for(0, "fair"), [], []
    for _ in range(400):
        right = rng.random((3, 100)) < np.array([[0.8], [0.8], [0.8]])
        equal.append(kept.fair(right, right[0]))
        worst.append(kept.fair(right, rng.random(100) < 0.5))
    assert abs(np.mean(equal)) < 0.01 and 0.28 < np.mean(worst) < 0.32


def test_the_figures_say_how_often_and_how_far_the_result_is_behind():
    def row(result, **more):
        candidates = {"adapted": 0.9, "head": 0.8, "cosine": 0.7}
        facts = {"labels": "right", "pack": "signs", "candidates": candidates, "fair": 0.01}
        return facts | {"result": result, "error": 0.02, "refused": False, "trained": True} | more

    rows = [row(0.9), row(0.77), row(0.7, refused=True), row(0.8, trained=False)]
    line = kept.summary(rows)[-1]
    assert line.startswith("| right | all | 4 | 70.0 | 80.0 | 90.0 | 79.2 | 10.75 | 1.00 | -0.8")
    assert line.endswith("| 50%, 25% | 25% | 25% |")
