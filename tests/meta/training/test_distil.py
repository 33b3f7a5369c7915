"""Distillation: a network follows several teachers, from the best linear start, on views that come again."""

import numpy as np
import pytest
import toynets
import toyruns

from tinytrain.base.errors import InputError
from tinytrain.meta.training.distil import Teachers, aligned
from tinytrain.meta.training.full_network import Whole

FAST = {"rate": 0.03, "relative": True, "bias_rate": 1e-3, "warm_up": 3}


def embedded(network, images):
    whole = Whole(network, len(images), trained=False)
    try:
        return whole.embed(images)
    finally:
        whole.close()


def cosines(a, b):
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_a_student_comes_nearer_to_its_teachers(tmp_path):
    run = toyruns.run(tmp_path, kind="distil", steps=60, optimizer=FAST, views=40)
    found = [row["loss"] for row in run().rows[1:]]
    assert np.mean(found[-4:]) < 0.8 * np.mean(found[:2])


def test_targets_keep_the_distances_between_centred_teachers_side_by_side():
    """As many directions as the teachers have numbers: a rotation, which no distance notices."""
    images = toynets.images(40)
    networks = [toyruns.TEACHER, toyruns.STUDENT]
    teachers = Teachers(networks, 28, images, 10, 1)
    joined = []
    for network in networks:
        raw = embedded(network, images).astype(np.float64)
        raw -= raw.mean(axis=0)
        joined.append(raw / np.sqrt((raw**2).sum(axis=1).mean()))
    joined = np.concatenate(joined, axis=1)
    np.testing.assert_allclose(teachers(images) @ teachers(images).T, joined @ joined.T, atol=1e-5)


def test_fewer_directions_are_the_principal_ones():
    images = toynets.images(40)
    kept = Teachers([toyruns.TEACHER], 3, images, 10, 1)(images)
    whole = Teachers([toyruns.TEACHER], 20, images, 10, 1)(images)
    values = np.linalg.eigvalsh(whole.T.astype(np.float64) @ whole)[::-1]
    np.testing.assert_allclose((kept**2).sum(), values[:3].sum(), rtol=1e-4)


def test_the_last_layer_starts_as_the_linear_map_that_fits_best():
    images = toynets.images(60)
    before = embedded(toyruns.STUDENT, images).astype(np.float64)
    targets = toynets.rng("targets").standard_normal((60, 8)).astype(np.float32)
    after = embedded(aligned(toyruns.STUDENT, before, targets), images)
    with_one = np.column_stack([before, np.ones(60)])
    best = with_one @ np.linalg.lstsq(with_one, targets, rcond=None)[0]
    spread = ((targets - targets.mean(axis=0)) ** 2).sum()
    assert abs(((after - targets) ** 2).sum() - ((best - targets) ** 2).sum()) < 0.01 * spread


def test_every_view_comes_once_before_one_comes_again_and_its_target_is_computed_once(tmp_path):
    task, _ = toyruns.task(tmp_path, "distil", views=20)
    first, second = ([task.batch(k) for k in range(start, start + 4)] for start in (0, 4))
    assert sorted(b.number for b in first) == sorted(b.number for b in second) == [0, 1, 2, 3]
    again = next(b for b in second if b.number == first[0].number)
    np.testing.assert_array_equal(again.images, first[0].images)
    asked = []
    teachers = task.teachers
    task.teachers = lambda images: asked.append(1) or teachers(images)
    for batch in (*first, *second):
        task.step(task.first, batch)
    assert len(asked) == 4


def test_teachers_with_fewer_numbers_than_the_student_are_refused(tmp_path):
    with pytest.raises(InputError, match="larger teachers") as refused:
        toyruns.task(tmp_path, "distil", network=toynets.toy("blocks"), teacher=[toyruns.STUDENT])
    assert refused.value.code == "teacher-size"


def test_a_student_whose_last_layer_is_no_linear_map_is_refused(tmp_path):
    with pytest.raises(InputError, match="has an activation") as refused:
        toyruns.task(tmp_path, "distil", network=toyruns.TEACHER)
    assert refused.value.code == "student-end"
