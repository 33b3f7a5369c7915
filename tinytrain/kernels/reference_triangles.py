"""Linear algebra on the lower triangle of a matrix in plain numpy: a part of `reference`."""

import numpy as np


def add_outer(a, x, scale):
    a += np.tril(scale * (x.T @ x))


def cholesky(a):
    try:
        lower = np.linalg.cholesky(np.tril(a) + np.tril(a, -1).T)
    except np.linalg.LinAlgError:
        return 1
    a[np.tril_indices(len(a))] = lower[np.tril_indices(len(a))]
    return 0


def cholesky_solve(x, factor):
    lower = np.tril(factor)
    x[...] = np.linalg.solve(lower.T, np.linalg.solve(lower, x.T)).T


def inverse_diagonal(diagonal, factor):
    diagonal[...] = np.square(np.linalg.inv(np.tril(factor))).sum(axis=0)


def _whole(packed):
    """(d, d) with the lower triangle that is packed row by row in (d * (d + 1) / 2,)."""
    size = int((np.sqrt(8 * len(packed) + 1) - 1) / 2)
    whole = np.zeros((size, size), packed.dtype)
    whole[np.tril_indices(size)] = packed
    return whole


def add_outer_packed(a, x, scale):
    whole = _whole(a)
    add_outer(whole, x, scale)
    a[...] = whole[np.tril_indices(len(whole))]


def cholesky_packed(a):
    whole = _whole(a)
    failed = cholesky(whole)
    a[...] = whole[np.tril_indices(len(whole))]
    return failed


def cholesky_solve_packed(x, factor):
    cholesky_solve(x, _whole(factor))


def inverse_diagonal_packed(diagonal, factor):
    inverse_diagonal(diagonal, _whole(factor))


def _fixed(x):
    x = np.where(np.abs(x) <= 2, x, np.zeros_like(x))
    return np.trunc(x * 2**20 + np.copysign(x.dtype.type(0.5), x)).astype(np.int64)


def add_products(a, x):
    rows, columns = np.tril_indices(x.shape[1])
    for row in _fixed(x):
        a += ((row[rows] * row[columns] + 2**19) >> 20).astype(a.dtype)


def add_rounded(sums, x, labels):
    np.add.at(sums, labels, _fixed(x).astype(sums.dtype))
