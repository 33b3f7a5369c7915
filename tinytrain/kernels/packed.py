"""Linear algebra of the LDA head on the lower triangle of a matrix alone, packed row by row.

Entry (i, j) with j <= i is number ``i * (i + 1) / 2 + j``. The kernels of `head` take twice the bytes.
"""

import math

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import kernel

ZERO, ONE = np.float32(0), np.float32(1)


@kernel
def add_outer_packed(a, x, scale):
    """a (d * (d + 1) / 2,) += scale * sum over rows of x (n, d) of row row^T."""
    for n in range(x.shape[0]):
        row = x[n]
        for i in range(x.shape[1]):
            factor, line = scale * row[i], a[i * (i + 1) // 2 :]
            for j in range(i + 1):
                line[j] = fused(factor, row[j], line[j])


@kernel
def cholesky_packed(a):
    """Replace a (d * (d + 1) / 2,), positive definite, by its lower factor.

    Returns 0, or 1 if a pivot is not positive.
    """
    i, start = 0, 0
    while start < a.shape[0]:
        line = a[start:]
        for j in range(i + 1):
            other, total = a[j * (j + 1) // 2 :], line[j]
            for k in range(j):
                total -= line[k] * other[k]
            if j < i:
                line[j] = total / other[j]
            elif total > ZERO:
                line[i] = math.sqrt(total)
            else:
                return 1
        i += 1
        start += i
    return 0


@kernel
def cholesky_solve_packed(x, factor):
    """Replace each row of x (k, d) by A^-1 row, with A = L L^T given by its packed lower factor."""
    size = x.shape[1]
    for row in range(x.shape[0]):
        v = x[row]
        for i in range(size):
            total, line = v[i], factor[i * (i + 1) // 2 :]
            for k in range(i):
                total -= line[k] * v[k]
            v[i] = total / line[i]
        for i in range(size - 1, -1, -1):
            line = factor[i * (i + 1) // 2 :]
            v[i] /= line[i]
            for k in range(i):
                v[k] = fused(-v[i], line[k], v[k])


@kernel
def inverse_diagonal_packed(diagonal, factor):
    """diagonal (d,) = diagonal of A^-1, with A = L L^T given by its packed lower factor."""
    for i in range(diagonal.shape[0]):
        # Column i of L^-1, from row i on, is stored in the unfinished part of the result.
        diagonal[i] = ONE / factor[i * (i + 3) // 2]
        total = diagonal[i] * diagonal[i]
        for row in range(i + 1, diagonal.shape[0]):
            start = row * (row + 1) // 2
            line, column = factor[start + i : start + row], diagonal[i:row]
            value = ZERO
            for k in range(len(column)):
                value -= line[k] * column[k]
            diagonal[row] = value / factor[start + row]
            total += diagonal[row] * diagonal[row]
        diagonal[i] = total
