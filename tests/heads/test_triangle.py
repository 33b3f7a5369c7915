"""The LDA head of a packed scatter: as of the square one, and as of an oracle in float64."""

from functools import partial

import numpy as np
import pytest
from cases import each
from headdata import embeddings, fitted

from tinytrain import kernels
from tinytrain.heads.lda import METHOD, MILD, RIDGE
from tinytrain.heads.scatter_head import SCATTER
from tinytrain.heads.triangle import Triangle, packed_buffers

BACKENDS = each("backend", ["auto", "numpy"])


def in_square(method):
    return type(
        "Square", (type(method),), {"buffers_for": lambda self, way, size, n: self.buffers(way, size)}
    )()


def in_triangle(method):
    def buffers_for(self, way, size, n):
        return packed_buffers(self.buffers(way, size), SCATTER)

    return type("Packed", (type(method),), {"buffers_for": buffers_for})()


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
    square, triangle = (fitted(form(method), x, labels, backend=backend) for form in (in_square, in_triangle))
    for name in ("weights", "offsets", "means", "factor"):
        a, b = getattr(square, name), getattr(triangle, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * np.abs(a).max())
    assert square.temperature == pytest.approx(triangle.temperature, rel=1e-4)
    assert square.left_out == triangle.left_out
    want = oracle(x, labels, method.shrinkage)
    np.testing.assert_allclose(triangle.weights, want, rtol=0, atol=1e-4 * np.abs(want).max())


@BACKENDS
@each("size", [1, 2, 7, 40])
def test_both_forms_of_a_matrix_do_the_same(backend, size):
    r = np.random.default_rng(size)
    x, y = r.standard_normal((size + 3, size)), r.standard_normal((2, size))
    whole = x.T @ x + np.eye(size)
    square = Triangle(kernels.load(backend), np.tril(whole).astype("f"))
    packed = Triangle(kernels.load(backend), whole[np.tril_indices(size)].astype("f"))
    assert square.size == packed.size == size
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    for form in (square, packed):
        form.add_outer(y.astype("f"), 0.5)
        form.add_to_diagonal(0.25)
        assert form.trace() == pytest.approx(np.trace(whole) + 0.5 * (y * y).sum() + 0.25 * size, rel=1e-5)
        form.factorize()
    exact = whole + 0.5 * y.T @ y + 0.25 * np.eye(size)
    for form in (square, packed):
        solved = y.astype("f")
        form.solve(solved)
        close(solved, np.linalg.solve(exact, y.T).T)
        close(form.inverse_diagonal(), np.diag(np.linalg.inv(exact)))
        assert form.sum_of_squares() == pytest.approx(np.trace(exact), rel=1e-5)
