"""Pre-training: it learns, follows a teacher, and leaves a plain folded network."""

import numpy as np
import pytest
import toynets
import toyruns

from tinytrain.errors import InputError
from tinytrain.meta.offline import finish, table
from tinytrain.modelfile import load_backbone

TEACHER = toynets.toy("headed")  # embeddings of 20 values
EQUAL = [[0, 4, 3, 1], [8, 6, 3, 2], [12, TEACHER.embedding_size, 3, 1]]
FAST = {"rate": 0.03, "relative": True, "bias_rate": 1e-3, "warm_up": 3}


def losses(run) -> list[float]:
    return [row["loss"] for row in run().rows[1:]]


@pytest.mark.parametrize(("loss", "blocks"), [("cosine", EQUAL), ("relational", toyruns.BLOCKS)])
def test_distillation_brings_the_embeddings_closer_to_the_teachers(tmp_path, loss, blocks):
    changes = {"loss": loss, "steps": 40, "optimizer": FAST, "batch": 12}
    changes["architecture"] = {"size": 16, "stem": 4, "blocks": blocks}
    run = toyruns.run(tmp_path, kind="pretrain", **changes, teacher_network=TEACHER)
    found = losses(run)
    assert np.mean(found[-4:]) < 0.8 * np.mean(found[:2])


def test_a_classifier_learns_the_classes(tmp_path):
    run = toyruns.run(tmp_path, kind="pretrain", steps=40, optimizer=FAST, batch=12)
    found = losses(run)
    assert np.mean(found[-4:]) < 0.8 * np.mean(found[:2])


def test_what_is_exported_is_a_plain_network_that_loads(tmp_path):
    run = toyruns.run(tmp_path, kind="pretrain")
    finished = finish(run.task, run, run.paths)
    network = load_backbone(run.paths.result)
    assert network.digest == finished.digest
    assert network.name == "toy"
    assert {layer.kind for layer in network.layers} <= {"conv", "depthwise", "pointwise"}
    assert "target" in table(finished)
    assert set(finished.json()["int8"]["left_out"]) == {"target"}


def test_teacher_embeddings_are_centred_by_a_fixed_mean(tmp_path):
    shape = {"size": 16, "stem": 4, "blocks": EQUAL}
    task, _ = toyruns.task(
        tmp_path, "pretrain", teacher=TEACHER, architecture=shape, augmentation={"domain": 0.0}
    )
    pictures = np.concatenate([task.batch(k).pictures for k in range(20)])
    wanted = task.teacher(pictures)
    raw = wanted + task.teacher.mean
    assert np.linalg.norm(wanted.mean(axis=0)) < 0.2 * np.linalg.norm(raw.mean(axis=0))
    np.testing.assert_array_equal(task.teacher(pictures[:3]), wanted[:3])


def test_a_teacher_of_another_width_needs_the_relational_loss(tmp_path):
    with pytest.raises(InputError, match="relational") as refused:
        toyruns.task(tmp_path, "pretrain", teacher=TEACHER)
    assert refused.value.code == "teacher-size"


def test_an_architecture_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(InputError):
        toyruns.task(tmp_path, "pretrain", architecture={"size": 16, "stem": 4, "blocks": [[8, 4, 4, 1]]})
