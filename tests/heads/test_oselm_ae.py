"""Autoencoders of classes: anomalies of digits, left-out errors, one class alone."""

import numpy as np
import pytest
from headdata import embeddings, fitted, unit32
from sklearn.datasets import load_digits

from tinytrain import kernels
from tinytrain.heads.head import IDENTIFIED, UNKNOWN
from tinytrain.heads.oselm_ae import CONSTANT, METHOD, RIDGE, UNITS, left_out_errors

KERNELS = kernels.load()


def of_one_class(x):
    return fitted(METHOD, unit32(x), np.zeros(len(x), np.int32))


def area(normal, others):
    """Probability that an anomaly has the larger error; a tie counts half."""
    return float((normal[:, None] < others).mean() + (normal[:, None] == others).mean() / 2)


@pytest.mark.parametrize("seed", range(3))
def test_anomalies_are_found_and_a_shift_of_the_normal_is_learnt(seed):
    """As in Matsutani's node: the area falls when the normal shifts, and 60 updates bring it back."""
    found = load_digits()
    normal, others = found.data[found.target == 0] / 16, found.data[found.target != 0][:400] / 16
    shift = 0.7 * np.abs(np.random.default_rng(seed).standard_normal(64))
    train, new, test = normal[:60], normal[60:120] + shift, normal[120:]
    head = of_one_class(train)

    def areas(head, images):
        return area(head.errors_of(unit32(images))[:, 0], head.errors_of(unit32(others))[:, 0])

    clean, shifted = areas(head, test), areas(head, test + shift)
    grown = head.extended(1)
    grown.update(KERNELS, unit32(new), np.zeros(60, np.int32))
    recovered = areas(grown, test + shift)
    assert clean >= 0.99 and shifted < clean - 0.03
    assert recovered - shifted >= 0.7 * (clean - shifted)


def test_each_class_is_the_ridge_regression_back_to_its_own_images():
    x, labels = embeddings(90)
    head = fitted(METHOD, x, labels)
    for k in range(3):
        centred, h = (a.astype(float) for a in head._seen(x[labels == k].astype("f")))
        weights = np.linalg.solve(h.T @ h + RIDGE * np.eye(UNITS), h.T @ centred).T
        assert np.abs(head.weights[k] - weights).max() < 1e-5
        assert (h[:, -1] == CONSTANT).all()


def test_errors_of_left_out_images_are_those_of_a_class_that_never_saw_them():
    x, labels = embeddings(45)
    head, found = fitted(METHOD, x, labels), []
    for i in range(45):
        rest = (labels == labels[i]) & (np.arange(45) != i)
        centred, h = (a.astype(float) for a in head._seen(x.astype("f")))
        weights = np.linalg.solve(h[rest].T @ h[rest] + RIDGE * np.eye(UNITS), h[rest].T @ centred[rest]).T
        error = np.square(centred[i] - weights @ h[i]).sum() / head.spread[0]
        assert left_out_errors(head, x[i].astype("f"), labels[i])[labels[i]] == pytest.approx(error, rel=0.01)
        found.append(error)
    for k in range(3):
        own = np.array(found)[labels == k]
        assert head.errors[k, 0] == pytest.approx(own.mean(), rel=0.01)
        assert head.errors[k, 1] == pytest.approx(np.square(own - own.mean()).sum(), rel=0.05)


def test_of_one_class_an_image_is_identified_or_unknown_and_sure_where_it_is_normal():
    x, labels = embeddings(200, seed=1)
    normal = x[labels == 0]
    head = of_one_class(normal[:30])
    own = [head.verdict(e) for e in unit32(normal[30:])]
    strange = [head.verdict(e) for e in unit32(x[labels == 1])]
    assert np.mean([v.state == IDENTIFIED for v in own]) > 0.75
    assert np.mean([v.state == UNKNOWN for v in strange]) > 0.9
    for v in (*own, *strange):
        assert (
            v.label == 0
            and (v.confidence > 0.5) == (v.state == IDENTIFIED)
            and v.refused == (v.state == UNKNOWN)
        )
    middling = sorted(own, key=lambda v: v.confidence)[len(own) // 2]
    assert middling.confidence > 0.8 and head.verdict(unit32(normal[:1])[0], 0.9999).rejected


def test_a_class_of_one_image_has_a_limit_too():
    x, labels = embeddings(60)
    one = of_one_class(x[labels == 0][:1])
    assert one.verdict(unit32(x[labels == 0][:1])[0]).state == IDENTIFIED
    assert one.verdict(-unit32(x[labels == 0][:1])[0]).state == UNKNOWN


def test_a_normal_that_changes_slowly_is_followed_by_its_limit():
    x, labels = embeddings(300, seed=3)
    normal = x[labels == 0]
    head = of_one_class(normal[:10]).extended(1)
    head.update(KERNELS, unit32(normal[10:80]), np.zeros(70, np.int32))
    assert head.counts.tolist() == [80]
    states = [head.verdict(e).state for e in unit32(normal[80:])]
    assert np.mean([s == IDENTIFIED for s in states]) > 0.75


def test_the_same_thing_learnt_again_and_again_leaves_the_limit_to_images_that_are_new():
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(64) + 0.4 * rng.standard_normal((200, 64))
    burst = normal[20] + 0.02 * rng.standard_normal((12, 64))
    before, once, often = (of_one_class(unit32(normal[:20])).extended(1) for _ in range(3))
    once.update(KERNELS, unit32(burst[:1]), np.zeros(1, np.int32))
    often.update(KERNELS, unit32(burst), np.zeros(12, np.int32))
    assert once.counts[0] == 21 and often.counts[0] < 28
    assert often.limits()[0] > 0.93 * before.limits()[0]
    accepted = [np.mean(h.errors_of(unit32(normal[21:]))[:, 0] <= h.limits()[0]) for h in (before, often)]
    assert accepted[1] > accepted[0] - 0.05


def test_a_class_without_images_is_never_the_answer():
    x, labels = embeddings(30)
    head = fitted(METHOD, x, labels).extended(4)
    assert (head.logits(-x.astype("f")).argmax(axis=1) < 3).all()
    assert head.verdict(unit32(x[:1])[0]).label == labels[0]


def test_bytes_of_a_class():
    """An inverse of N^2 and weights of N d floats for each class."""
    found = {b.name: b.nbytes for b in METHOD.tensors(3, 160)}
    assert found["weights"] + found["inverses"] == 3 * 4 * (UNITS**2 + UNITS * 160)


def test_a_delta_that_no_regression_can_have_is_refused():
    x, labels = embeddings(30)
    broken = fitted(METHOD, x, labels).extended(3)
    broken.errors[1, 1] = -1
    assert "head.errors" in broken.problem()
