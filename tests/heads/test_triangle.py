"""The LDA head of a packed scatter, and what such a matrix does, as of an oracle in float64."""

from functools import partial

import numpy as np
import pytest
from cases import each
from headdata import embeddings, fitted

from tinytrain import kernels
from tinytrain.heads.lda import METHOD, MILD, RIDGE
from tinytrain.heads.triangle import Triangle

BACKENDS = each("backend", ["auto", "numpy"])


def oracle(x, labels, shrinkage):
    """Weights (way, d) in float64: S^-1 of every class mean."""
    means = np.stack([x[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
    rows = x - means[labels]
    covariance = rows.T @ rows / len(x)
    size = len(covariance)
    ridge = shrinkage * np.trace(covariance) / size + RIDGE
    return np.linalg.solve((1 - shrinkage) * covariance + ridge * np.eye(size), means.T).T


@BACKENDS
@each("method", [METHOD, MILD], ids=lambda method: method.name)
def test_half_of_the_scatter_gives_the_head_of_all_of_it(backend, method):
    x, labels = embeddings(120)
    head, want = fitted(method, x, labels, backend=backend), oracle(x, labels, method.shrinkage)
    np.testing.assert_allclose(head.weights, want, rtol=0, atol=1e-3 * np.abs(want).max())


@BACKENDS
@each("size", [1, 2, 7, 40])
def test_a_packed_matrix_does_what_the_matrix_does(backend, size):
    r = np.random.default_rng(size)
    x, y = r.standard_normal((size + 3, size)), r.standard_normal((2, size))
    whole = x.T @ x + np.eye(size)
    packed = Triangle(kernels.load(backend), whole[np.tril_indices(size)].astype("f"))
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    packed.add_outer(y.astype("f"), 0.5)
    packed.add_to_diagonal(0.25)
    assert packed.trace() == pytest.approx(np.trace(whole) + 0.5 * (y * y).sum() + 0.25 * size, rel=1e-5)
    packed.factorize()
    exact, solved = whole + 0.5 * y.T @ y + 0.25 * np.eye(size), y.astype("f")
    packed.solve(solved)
    close(solved, np.linalg.solve(exact, y.T).T)
    close(packed.inverse_diagonal(), np.diag(np.linalg.inv(exact)))
