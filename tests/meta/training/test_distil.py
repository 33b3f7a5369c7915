"""Distillation: a network follows several teachers, on views that come again."""

import numpy as np
import toynets
import toyruns

from tinytrain.meta.training.distil import Teachers
from tinytrain.meta.training.full_network import Whole

FAST = {"rate": 0.03, "relative": True, "bias_rate": 1e-3, "warm_up": 3}


def embedded(network, images):
    whole = Whole(network, len(images), trained=False)
    try:
        return whole.embed(images)
    finally:
        whole.close()


def test_a_student_comes_nearer_to_its_teachers(tmp_path):
    run = toyruns.run(tmp_path, kind="distil", steps=60, optimizer=FAST, batch=12, views=24)
    found = [row["loss"] for row in run().rows[1:]]
    assert np.mean(found[-4:]) < 0.8 * np.mean(found[:2])


def test_wanted_are_the_products_of_centred_teachers_of_the_same_size_side_by_side():
    images = toynets.images(40)
    networks = [toyruns.TEACHER, toyruns.STUDENT]
    joined = []
    for network in networks:
        raw = embedded(network, images).astype(np.float64)
        raw -= raw.mean(axis=0)
        joined.append(raw / np.sqrt((raw**2).sum(axis=1).mean()))
    joined = np.concatenate(joined, axis=1)
    found = Teachers(networks, images, 10, 1)(images)
    np.testing.assert_allclose(found, joined @ joined.T, atol=1e-5)
    np.testing.assert_allclose(found.trace(), 2 * len(images), rtol=1e-5)


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
