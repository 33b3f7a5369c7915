"""Weights and biases of int8 programs: taken out of a layer, put back, and folded with zero points."""

import numpy as np

from tinytrain.kernels.jit import kernel, ordered

LIMIT = np.float32(2**30)


@kernel
def gather_weights(y, w, rows, columns, turned):
    """y (i, j) int8 from int8 weights w: w[columns, rows] where they are (cout, fan_in): `turned`.

    `rows` (i,) and `columns` (j,) int32; w is (fan_in, cout) otherwise.
    """
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = w[columns[j], rows[i]] if turned else w[rows[i], columns[j]]


@kernel
def scatter_weights(w, rows, columns, x, turned):
    """x (i, j) int8 into weights w, as `gather_weights` takes them."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if turned:
                w[columns[j], rows[i]] = x[i, j]
            else:
                w[rows[i], columns[j]] = x[i, j]


@ordered
def _in_units(value, unit):
    return np.int32(min(max(np.rint(value / unit), -LIMIT), LIMIT))


@kernel
def fold_bias(y, b, unit, w, zero, turned):
    """y (n,) int32: the multiples of `unit` (n,) nearest to b (n,), minus what the zero of inputs adds up to.

    b, unit float32; w is int8 (n, k) if `turned`, else (k, n).
    """
    for j in range(y.shape[0]):
        y[j] = 0
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            y[i if turned else j] += w[i, j]
    for j in range(y.shape[0]):
        y[j] = _in_units(b[j], unit[j]) - np.int32(zero) * y[j]
