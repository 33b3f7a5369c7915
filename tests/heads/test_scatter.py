"""Streamed scatter, and its form for few embeddings, against sums over all embeddings in float64."""

import numpy as np
import pytest
from cases import each
from headdata import embeddings, fitted, in_form

from tinytrain import kernels
from tinytrain.heads.linear import MOST
from tinytrain.heads.registry import HEADS
from tinytrain.heads.scatter import AROUND_ALL, WITHIN, Woodbury, cholesky_of, scatter_of, stream
from tinytrain.heads.scatter_head import ScatterHead, are_few
from tinytrain.heads.triangle import packed, unpacked

WAY, SIZE = 3, 40
BACKENDS = each("backend", ["auto", "numpy"])
ORDERS = each("seed", range(3))


def around_classes(x, labels):
    return x - np.stack([x[labels == k].mean(axis=0) for k in range(labels.max() + 1)])[labels]


def streamed(x, labels, form, dtype, backend="auto"):
    scatter, means = np.zeros((x.shape[1],) * 2, dtype), np.zeros((WAY, x.shape[1]), dtype)
    counts = np.zeros(WAY, np.int32)
    for first in range(0, len(x), 7):
        part = slice(first, first + 7)
        batch = x[part].astype(dtype), labels[part]
        stream(kernels.load(backend), scatter, means, counts, batch, form)
    return np.tril(scatter) + np.tril(scatter, -1).T, means, counts


@ORDERS
@each("form", [WITHIN, AROUND_ALL])
@each("dtype, backend, error", [("f4", "auto", 1e-5), ("f8", "numpy", 1e-12)])
def test_a_stream_in_any_order_has_the_scatter_of_all_embeddings(seed, form, dtype, backend, error):
    x, labels = embeddings(400)
    order = np.random.default_rng(seed).permutation(len(x))
    found, means, counts = streamed(x[order], labels[order], form, dtype, backend)
    rows = around_classes(x, labels) if form == WITHIN else x - x.mean(axis=0)
    np.testing.assert_allclose(found, rows.T @ rows, rtol=0, atol=error * np.abs(rows.T @ rows).max())
    np.testing.assert_allclose(means[labels], x - around_classes(x, labels), atol=error)
    assert counts.tolist() == np.bincount(labels).tolist()


def test_counts_stop_where_they_would_turn_negative():
    x, labels = embeddings(9)
    means, counts = np.zeros((WAY, SIZE), "f"), np.full(WAY, MOST, np.int32)
    stream(kernels.load(), np.zeros((SIZE, SIZE), "f"), means, counts, (x.astype("f"), labels))
    assert (counts == MOST).all() and np.isfinite(means).all()


def test_packing_a_triangle_keeps_it():
    factor = np.tril(np.random.default_rng(0).random((5, 5)).astype(np.float32))
    assert packed(factor).shape == (15,) and (unpacked(packed(factor)) == factor).all()


@BACKENDS
@each("n", [1, 4, 20])
def test_few_rows_solve_as_the_matrix_they_stand_for(backend, n):
    rng = np.random.default_rng(n)
    rows, x = rng.standard_normal((n, SIZE)), rng.standard_normal((WAY, SIZE))
    matrix = 0.3 * rows.T @ rows + 0.5 * np.eye(SIZE)
    few = Woodbury(kernels.load(backend), np.empty((n, n), "f"), rows.astype("f"), 0.3, 0.5)
    solved = x.astype("f")
    few.solve(solved)
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, x.T).T, rtol=1e-4, atol=1e-4)
    excess = np.trace(np.linalg.solve(matrix, rows.T @ rows / n))
    assert few.excess == pytest.approx(excess, rel=1e-5)


# ---- heads ------------------------------------------------------------------------------------------


SCATTERED = [name for name, method in HEADS.items() if issubclass(method.head, ScatterHead)]
KINDS = each("kind", SCATTERED)


@KINDS
@each("n, views", [(3, 1), (9, 1), (20, 1), (18, 3)])
@each("dtype, backend, error", [("f4", "auto", 2e-4), ("f8", "numpy", 1e-9)])
def test_few_embeddings_give_the_head_that_their_scatter_gives(kind, n, views, dtype, backend, error):
    x, labels = embeddings(n)
    labels = np.tile(labels[: n // views], views) if views > 1 else labels
    few = fitted(in_form(HEADS[kind], True), x, labels, dtype, backend, views)
    many = fitted(in_form(HEADS[kind], False), x, labels, "f8", "numpy", views)
    new, _ = embeddings(50, seed=1)
    logits, other = few.logits(new), many.logits(new)
    np.testing.assert_allclose(logits, other, rtol=0, atol=error * np.ptp(other))
    assert few.temperature == pytest.approx(many.temperature, rel=1e-3)
    assert few.left_out == many.left_out and few.views == many.views == views
    assert few.deviations.shape == (n, SIZE) and many.deviations is None


@KINDS
@each("size", [40, 41])
def test_the_form_is_that_with_fewer_bytes(kind, size):
    method = HEADS[kind]
    for n in range(1, 60):
        names = {b.name for b in method.tensors(WAY, size, n)}
        few = sum(b.nbytes for b in method.few_form(WAY, size, n) if b.lifetime != "fitting")
        many = sum(b.nbytes for b in method.tensors(WAY, size))
        assert ("deviations" in names) == (few <= many) == are_few(n, size)


@KINDS
@ORDERS
@each("first", [6, 60])
def test_updates_in_any_order_give_the_head_of_all_embeddings(kind, seed, first):
    """Whether it starts from few embeddings or from their scatter; classes that are new are among them."""
    x, labels = embeddings(200)
    known = np.concatenate([np.flatnonzero(labels == k)[: first // 2] for k in range(2)])
    rest = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(x)), known))
    head = fitted(HEADS[kind], x[known], labels[known])
    assert (head.deviations is not None) == (first == 6)
    grown = head.extended(WAY)
    for part in np.array_split(rest, 20):
        grown.update(kernels.load(), x[part].astype("f"), labels[part])
    new, _ = embeddings(50, seed=1)
    logits, other = grown.logits(new), fitted(HEADS[kind], x, labels).logits(new)
    np.testing.assert_allclose(logits, other, rtol=0, atol=1e-3 * np.ptp(other))


def test_the_factor_without_blas_is_that_of_numpy():
    rows = np.random.default_rng(0).standard_normal((60, SIZE))
    matrix = rows.T @ rows
    np.testing.assert_allclose(scatter_of(rows), matrix, rtol=1e-12)
    np.testing.assert_allclose(cholesky_of(matrix.copy()), np.linalg.cholesky(matrix), atol=1e-12)
