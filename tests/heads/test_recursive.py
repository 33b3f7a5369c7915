"""Recursive least squares against ridge regressions on all examples at once, in float64."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tinytrain.heads.projection import _mixed, hidden, sigmoid
from tinytrain.heads.recursive import begin, learn, leverage, product

# Of `beta` (hidden, classes) of `OSELMRegressor` of pyoselm 1.2.0 for `digits`, with this hidden layer.
PUBLISHED = [
    [0.788524155445, -0.953893284165, -1.78926907416, -1.078222112735],
    [1.968860423486, -0.40406647078, -1.365504458896, -0.590632109318],
    [-0.601848829562, 0.394396454133, 0.134868461906, 0.527966485005],
]
PUBLISHED_ANSWERS = [[0.0319474698, -0.0336345889, 0.5287666334], [-0.1584605831, 0.7108449827, 0.1296805287]]


def examples(n=500, size=40, out=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, size)), rng.standard_normal((n, out))


def learnt(h, t, ridge, dtype=float):
    inverse, weights = np.empty((h.shape[1],) * 2, dtype), np.empty((t.shape[1], h.shape[1]), dtype)
    begin(inverse, weights, ridge)
    for inputs, target in zip(h.astype(dtype), t.astype(dtype), strict=True):
        learn(inverse, weights, inputs, target)
    return inverse, weights


def ridge_regression(h, t, ridge):
    """Weights (out, size) of the regression on all examples."""
    return np.linalg.solve(h.T @ h + ridge * np.eye(h.shape[1]), h.T @ t).T


@pytest.mark.parametrize("ridge", [0.01, 1, 100])
def test_one_example_after_another_is_the_ridge_regression_on_all_of_them(ridge):
    h, t = examples()
    inverse, weights = learnt(h, t, ridge)
    assert np.abs(weights - ridge_regression(h, t, ridge)).max() < 1e-8
    assert np.abs(inverse - np.linalg.inv(h.T @ h + ridge * np.eye(40))).max() < 1e-8


def test_after_ten_thousand_steps_in_float32_it_still_is_and_the_inverse_is_symmetric():
    h, t = examples(10_000, 64)
    inverse, weights = learnt(h, t, 1.0, np.float32)
    assert np.abs(weights - ridge_regression(h, t, 1.0)).max() < 1e-3
    assert (inverse == inverse.T).all() and inverse.diagonal().min() > 0


def test_without_an_example_its_error_is_larger_by_its_leverage():
    h, t = examples(60)
    inverse, weights = learnt(h, t, 2.0)
    for i in (0, 30, 59):
        rest = np.arange(60) != i
        others = t[i] - ridge_regression(h[rest], t[rest], 2.0) @ h[i]
        own = t[i] - product(weights, h[i])
        assert np.abs(own / (1 - leverage(inverse, h[i])) - others).max() < 1e-8


def digits():
    """Hidden layer (n, 32) of digits, and their classes (n, 10) as numbers."""
    found = load_digits()
    return hidden(found.data / 16 - 0.5, 32, 0.25), np.eye(10)[found.target]


def test_digits_are_learnt_to_the_weights_of_pyoselm():
    """As it does, from a first block without a ridge, then one image after another."""
    h, t = digits()
    inverse = np.linalg.inv(h[:64].T @ h[:64])
    weights = (inverse @ h[:64].T @ t[:64]).T.copy()
    for inputs, target in zip(h[64:600], t[64:600], strict=True):
        learn(inverse, weights, inputs, target)
    assert np.abs(weights.T[::11, ::3] - PUBLISHED).max() < 1e-6
    assert np.abs(h[600:602] @ weights.T[:, :3] - PUBLISHED_ANSWERS).max() < 1e-6
    assert ((h[600:] @ weights.T).argmax(axis=1) == t[600:].argmax(axis=1)).mean() > 0.8


def test_random_numbers_are_those_of_splitmix64():
    """Outputs for the seed 0 as the generator is published."""
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert _mixed(np.arange(3, dtype=np.uint64)).tolist() == known


def test_a_hidden_layer_does_not_depend_on_how_many_units_or_images_are_asked_for():
    x = np.random.default_rng(1).standard_normal((5, 100)).astype("f")
    found = hidden(x, 40, 0.1)
    assert (hidden(x[2:3], 40, 0.1) == found[2]).all() and (hidden(x, 24, 0.1) == found[:, :24]).all()
    assert found.dtype == np.float32 and found.min() > 0 and found.max() < 1
    assert np.linalg.matrix_rank(hidden(np.random.default_rng(2).standard_normal((60, 100)), 40, 0.1)) == 40


def test_random_projections_keep_distances():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((30, 160)) * 0.01  # where the sigmoid is a line
    found = (hidden(x, 4096, 1.0) - hidden(0 * x[:1], 4096, 1.0)) / 0.25
    apart, seen = (((a[:, None] - a) ** 2).sum(axis=2)[np.triu_indices(30, 1)] for a in (x, found))
    assert np.corrcoef(apart, seen)[0, 1] > 0.95


def test_the_sigmoid_rises_from_0_to_1_as_the_logistic_one_does_at_0():
    x = np.linspace(-30, 30, 6001)
    y = sigmoid(x)
    assert (np.diff(y) > 0).all() and y[0] < 0.01 and y[-1] > 0.99 and y[3000] == 0.5
    assert abs((y[3001] - y[2999]) / (x[3001] - x[2999]) - 0.25) < 1e-4
