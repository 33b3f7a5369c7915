"""Heads of a scatter and of the few embeddings it is made of, against sums over all embeddings in float64."""

import numpy as np
import pytest
from cases import each
from headdata import embeddings, fitted, in_form

from tinytrain import kernels
from tinytrain.heads.registry import HEADS
from tinytrain.heads.scatter import Woodbury
from tinytrain.heads.scatter_head import ScatterHead, are_few
from tinytrain.heads.triangle import packed, unpacked

WAY, SIZE = 3, 40
BACKENDS = each("backend", ["auto", "numpy"])
ORDERS = each("seed", range(3))


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
@each("n, views", [(9, 1), (20, 1), (18, 3)])
@each("dtype, backend", [("f4", "auto"), ("f8", "numpy")])
def test_few_embeddings_give_the_head_that_their_scatter_gives(kind, n, views, dtype, backend):
    x, labels = embeddings(n)
    labels = np.tile(labels[: n // views], views) if views > 1 else labels
    few = fitted(in_form(HEADS[kind], True), x, labels, dtype, backend, views)
    many = fitted(in_form(HEADS[kind], False), x, labels, "f8", "numpy", views)
    new, _ = embeddings(50, seed=1)
    logits, other = few.logits(new), many.logits(new)
    # Products are rounded to multiples of 2^-20 where there are sums of them.
    np.testing.assert_allclose(logits, other, rtol=0, atol=2e-3 * np.ptp(other))
    assert few.temperature == pytest.approx(many.temperature, rel=3e-3)
    assert few.left_out == many.left_out and few.views == many.views == views
    assert few.embeddings.shape == (n, SIZE) and many.embeddings is None


@KINDS
@each("size", [40, 41])
def test_the_form_is_that_with_fewer_bytes(kind, size):
    method = HEADS[kind]
    for n in range(1, 60):
        names = {b.name for b in method.tensors(WAY, size, n)}
        few = sum(b.nbytes for b in method.few_form(WAY, size, n) if b.name == "embeddings")
        many = sum(b.nbytes for b in method.sum_form(WAY, size, n) if b.name in ("products", "embeddings"))
        assert ("embeddings" in names) == (few <= many) == are_few(n, size)


@KINDS
@ORDERS
@each("first", [6, 60])
def test_updates_in_any_order_give_the_head_of_all_embeddings(kind, seed, first):
    """Whether it starts from few embeddings or from their scatter; classes that are new are among them."""
    x, labels = embeddings(200)
    known = np.concatenate([np.flatnonzero(labels == k)[: first // 2] for k in range(2)])
    rest = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(x)), known))
    head = fitted(HEADS[kind], x[known], labels[known])
    assert (head.embeddings is not None) == (first == 6)
    grown = head.extended(WAY)
    for part in np.array_split(rest, 20):
        grown.update(kernels.load(), x[part].astype("f"), labels[part])
    new, _ = embeddings(50, seed=1)
    logits, other = grown.logits(new), fitted(HEADS[kind], x, labels).logits(new)
    np.testing.assert_allclose(logits, other, rtol=0, atol=1e-3 * np.ptp(other))
