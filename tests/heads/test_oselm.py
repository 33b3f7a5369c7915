"""OS-ELM as a head: its regression, images left out, bytes."""

import numpy as np
import pytest
from headdata import embeddings, fitted

from tinytrain import kernels
from tinytrain.heads.oselm import METHOD, RIDGE, UNITS
from tinytrain.pipeline.head_conformance import fitted as fitted_to
from tinytrain.pipeline.head_conformance import made_up


def oracle(head, x, labels, way):
    """Weights (way, UNITS) of the ridge regression to one-hot labels, and the hidden layer, in float64."""
    h = head.hidden(x.astype("f")).astype(float)
    return np.linalg.solve(h.T @ h + RIDGE * np.eye(UNITS), h.T @ np.eye(way)[labels]).T, h


@pytest.fixture(scope="module")
def task():
    return embeddings(90)


def test_weights_are_those_of_the_ridge_regression(task):
    x, labels = task
    head = fitted(METHOD, x, labels)
    weights, _ = oracle(head, x, labels, 3)
    assert np.abs(head.weights - weights).max() < 1e-4


def test_updates_are_exact_with_a_new_class_too(task):
    x, labels = task
    old = np.flatnonzero(labels < 2)
    head = fitted(METHOD, x[old], labels[old]).extended(3)
    rest = np.flatnonzero(labels == 2)
    head.update(kernels.load(), x[rest].astype("f"), labels[rest])
    weights, _ = oracle(head, x, labels, 3)
    assert np.abs(head.weights - weights).max() < 1e-4 and head.counts.tolist() == [30, 30, 30]


def test_left_out_images_answer_as_if_the_head_had_never_seen_them():
    """The hidden layer is that of all images: its centre is not learnt from labels."""
    x, labels = embeddings(30, way=3)
    head, right = fitted(METHOD, x, labels), 0
    for i in range(30):
        rest = np.arange(30) != i
        weights, _ = oracle(head, x[rest], labels[rest], 3)
        right += int((weights @ head.hidden(x[i : i + 1].astype("f"))[0]).argmax() == labels[i])
    assert head.left_out == pytest.approx(right / 30)


def test_its_state_has_the_bytes_of_the_published_one():
    """N^2 + N m floats for N hidden units and m classes, besides the centre of the hidden layer's input."""
    found = {b.name: b.nbytes for b in METHOD.tensors(5, 160)}
    assert found.pop("weights") + found.pop("inverse") == 4 * (UNITS**2 + UNITS * 5)
    assert found == {"centre": 4 * 160, "slope": 4, "counts": 4 * 5}


def test_a_delta_that_no_regression_can_have_is_refused():
    head = fitted_to(METHOD, kernels.load(), made_up(3, 12, 4))
    assert head.problem() is None
    broken = head.extended(3)
    broken.inverse[0, 0] = -1
    assert "diagonal" in broken.problem()
