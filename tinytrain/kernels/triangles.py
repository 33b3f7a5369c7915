"""Linear algebra of the LDA head on the lower triangle of a matrix, all in place.

The matrix is whole, (d, d), or that triangle packed row by row, (d * (d + 1) / 2,): entry (i, j) with j <= i
is number ``i * (i + 1) / 2 + j``. That takes half the bytes.
"""

import math

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import inlined, kernel

ZERO, ONE, TWO, HALF = np.float32(0), np.float32(1), np.float32(2), np.float32(0.5)
UNIT = np.float32(2**20)


@inlined
def _line(a, i):
    """Row i of either form, from its first entry on."""
    return a[i] if a.ndim == 2 else a[i * (i + 1) // 2 :]


@inlined
def _add_outer(a, x, scale):
    for n in range(x.shape[0]):
        row = x[n]
        for i in range(x.shape[1]):
            factor, line = scale * row[i], _line(a, i)
            for j in range(i + 1):
                line[j] = fused(factor, row[j], line[j])


@kernel
def add_outer(a, x, scale):
    """Lower triangle of a (d, d) += scale * sum over rows of x (n, d) of row row^T."""
    _add_outer(a, x, scale)


@kernel
def add_outer_packed(a, x, scale):
    """As `add_outer`, with a (d * (d + 1) / 2,)."""
    _add_outer(a, x, scale)


@inlined
def _fixed(x):
    """The nearest multiple of 2^-20, in units of that; what is out of reach, or no number, becomes 0."""
    half = HALF if x >= ZERO else -HALF
    return np.int64(x * UNIT + half) if abs(x) <= TWO else np.int64(0)


@kernel
def add_products(a, x):
    """a (d * (d + 1) / 2,) int32 or int64 += the products of the values of each row of x (n, d), |x| <= 1.

    Values and products are rounded to multiples of 2^-20, and counted in these: the order of rows is free.
    """
    for n in range(x.shape[0]):
        row = x[n]
        for i in range(x.shape[1]):
            factor, line = _fixed(row[i]), _line(a, i)
            for j in range(i + 1):
                line[j] += (factor * _fixed(row[j]) + np.int64(2**19)) >> np.int64(20)


@kernel
def add_rounded(sums, x, labels):
    """sums (k, d) int32 or int64 += the rows of x (n, d) of each class, rounded likewise."""
    for n in range(x.shape[0]):
        total = sums[labels[n]]
        for d in range(x.shape[1]):
            total[d] += _fixed(x[n, d])


@inlined
def _cholesky(a, size):
    for j in range(size):
        row = _line(a, j)
        total = row[j]
        for k in range(j):
            total -= row[k] * row[k]
        if not total > ZERO:
            return 1
        row[j] = math.sqrt(total)
        fours = j + 1 + (size - j - 1) // 4 * 4
        for i in range(j + 1, fours, 4):  # sums that do not wait for each other
            a0, a1, a2, a3 = _line(a, i), _line(a, i + 1), _line(a, i + 2), _line(a, i + 3)
            t0, t1, t2, t3 = a0[j], a1[j], a2[j], a3[j]
            for k in range(j):
                t0 -= a0[k] * row[k]
                t1 -= a1[k] * row[k]
                t2 -= a2[k] * row[k]
                t3 -= a3[k] * row[k]
            a0[j], a1[j], a2[j], a3[j] = t0 / row[j], t1 / row[j], t2 / row[j], t3 / row[j]
        for i in range(fours, size):
            line = _line(a, i)
            total = line[j]
            for k in range(j):
                total -= line[k] * row[k]
            line[j] = total / row[j]
    return 0


@kernel
def cholesky(a):
    """Replace a (d, d), symmetric positive definite, by its lower factor in place (upper part untouched).

    Returns 0, or 1 if a pivot is not positive.
    """
    return _cholesky(a, a.shape[0])


@kernel
def cholesky_packed(a):
    """As `cholesky`, with a (d * (d + 1) / 2,), in the same order."""
    return _cholesky(a, int(math.sqrt(2 * a.shape[0])))


@inlined
def _solve_lower(v, factor):
    """v (d,) becomes L^-1 v."""
    for i in range(v.shape[0]):
        total, line = v[i], _line(factor, i)
        for k in range(i):
            total -= line[k] * v[k]
        v[i] = total / line[i]


@kernel
def cholesky_solve(x, factor):
    """Replace each row of x (k, d) by A^-1 row, with A = L L^T given by its lower factor (d, d)."""
    size = factor.shape[0]
    for row in range(x.shape[0]):
        v = x[row]
        _solve_lower(v, factor)
        for i in range(size - 1, -1, -1):
            total = v[i]
            for k in range(i + 1, size):
                total -= factor[k, i] * v[k]
            v[i] = total / factor[i, i]


@kernel
def cholesky_solve_packed(x, factor):
    """As `cholesky_solve`, with the factor (d * (d + 1) / 2,), read by rows in both directions."""
    for row in range(x.shape[0]):
        v = x[row]
        _solve_lower(v, factor)
        for i in range(v.shape[0] - 1, -1, -1):
            line = _line(factor, i)
            v[i] /= line[i]
            for k in range(i):
                v[k] = fused(-v[i], line[k], v[k])


@inlined
def _inverse_diagonal(diagonal, factor):
    for i in range(diagonal.shape[0]):
        # Column i of L^-1, from row i on, is stored in the unfinished part of the result.
        diagonal[i] = ONE / _line(factor, i)[i]
        total = diagonal[i] * diagonal[i]
        for row in range(i + 1, diagonal.shape[0]):
            whole = _line(factor, row)
            line, column = whole[i:row], diagonal[i:row]
            value = ZERO
            for k in range(len(column)):
                value -= line[k] * column[k]
            diagonal[row] = value / whole[row]
            total += diagonal[row] * diagonal[row]
        diagonal[i] = total


@kernel
def inverse_diagonal(diagonal, factor):
    """diagonal (d,) = diagonal of A^-1, with A = L L^T given by its lower factor (d, d)."""
    _inverse_diagonal(diagonal, factor)


@kernel
def inverse_diagonal_packed(diagonal, factor):
    """As `inverse_diagonal`, with the factor (d * (d + 1) / 2,)."""
    _inverse_diagonal(diagonal, factor)
