"""What transformers need beside products: softmax, normalised rows, words, and rows that are no tokens."""

import math

import numpy as np

from tinytrain.kernels.exp_log import exp
from tinytrain.kernels.jit import inlined, kernel

ZERO, ONE, NONE, FAR = map(np.float32, (0, 1, -np.inf, -1e30))


@kernel
def softmax(y, scale):
    """y (m, n) = exp(scale * y) divided by its sum over each row; not all of a row may be -infinity."""
    for i in range(y.shape[0]):
        row, top, total = y[i], NONE, ZERO
        for j in range(row.shape[0]):
            top = max(top, row[j])
        for j in range(row.shape[0]):
            row[j] = exp(scale * (row[j] - top))
            total += row[j]
        for j in range(row.shape[0]):
            row[j] /= total


@kernel
def softmax_grad(g, p, scale):
    """g (m, n) = gradient of what `softmax` takes, from that of its result p (m, n)."""
    for i in range(g.shape[0]):
        row, share, total = g[i], p[i], ZERO
        for j in range(row.shape[0]):
            total += row[j] * share[j]
        for j in range(row.shape[0]):
            row[j] = scale * share[j] * (row[j] - total)


@inlined
def _mean_and_inverse(x, epsilon):
    """The mean of x (c,), and 1 / sqrt(its variance + epsilon)."""
    mean, square = ZERO, ZERO
    for c in range(x.shape[0]):
        mean += x[c]
    mean /= np.float32(x.shape[0])
    for c in range(x.shape[0]):
        square += (x[c] - mean) * (x[c] - mean)
    return mean, ONE / np.float32(math.sqrt(square / np.float32(x.shape[0]) + epsilon))


@kernel
def standardise(y, x, epsilon):
    """Rows of y (m, c) = those of x (m, c) with mean 0 and variance 1; y may be x."""
    for i in range(x.shape[0]):
        mean, inverse = _mean_and_inverse(x[i], epsilon)
        out, row = y[i], x[i]
        for c in range(row.shape[0]):
            out[c] = (row[c] - mean) * inverse


@kernel
def standardise_grad(g, x, epsilon):
    """g (m, c) = gradient of x (m, c) of `standardise`, from that of its result."""
    for i in range(x.shape[0]):
        mean, inverse = _mean_and_inverse(x[i], epsilon)
        row, read, total, along = g[i], x[i], ZERO, ZERO
        for c in range(row.shape[0]):
            total += row[c]
            along += row[c] * (read[c] - mean)
        total /= np.float32(row.shape[0])
        along *= inverse * inverse / np.float32(row.shape[0])
        for c in range(row.shape[0]):
            row[c] = (row[c] - total - (read[c] - mean) * along) * inverse


@inlined
def _is_absent(x):
    absent = True
    for c in range(x.shape[0]):
        absent &= x[c] == ZERO
    return absent


@kernel
def absent(p, x):
    """p (n,) = -1e30 for rows of x (n, c) that are all zeros, 0 for the others."""
    for i in range(p.shape[0]):
        p[i] = FAR if _is_absent(x[i]) else ZERO


@kernel
def clear_rows(y, x):
    """Rows of y (m, c) = 0 where those of x (m, d) are all zeros."""
    for i in range(y.shape[0]):
        if _is_absent(x[i]):
            row = y[i]
            for c in range(row.shape[0]):
                row[c] = ZERO


@kernel
def embed(y, ids, w, b):
    """Rows of y (m, c) = those of w (v, c) that ids (m,) name, plus b (c,); zeros for 0 and no row of w."""
    for i in range(y.shape[0]):
        out, word = y[i], int(ids[i])
        known = word > 0 and word < w.shape[0]
        row = w[word if known else 0]
        for c in range(out.shape[0]):
            out[c] = row[c] + b[c] if known else ZERO


@kernel
def embed_grad(gw, ids, g):
    """Rows of gw (v, c) that ids (m,) name += those of g (m, c)."""
    for i in range(g.shape[0]):
        word = int(ids[i])
        if word > 0 and word < gw.shape[0]:
            out, row = gw[word], g[i]
            for c in range(row.shape[0]):
                out[c] += row[c]
