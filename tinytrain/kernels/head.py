"""Heads: prototype loss with its gradients, and the linear algebra of the LDA head, all in place."""

import math

import numpy as np

from tinytrain.kernels.exp_log import exp, log
from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import inlined, kernel

ZERO, ONE, TINY = np.float32(0), np.float32(1), np.float32(1e-12)


@inlined
def _norm(x):
    total = ZERO
    for d in range(x.shape[0]):
        total += x[d] * x[d]
    return math.sqrt(total + TINY)


@kernel
def prototype_loss(loss, residual, cosine, f, labels, p, temperature):
    """Cross-entropy of ``temperature * cos(f_n, p_k)`` against labels.

    f (n, d) embeddings, p (k, d) prototypes, labels (n,) int32. Writes loss (n,), cosine (n, k) and
    residual (n, k) = softmax - one-hot.
    """
    for k in range(p.shape[0]):
        norm = _norm(p[k])
        for n in range(f.shape[0]):
            dot = ZERO
            for d in range(f.shape[1]):
                dot += f[n, d] * p[k, d]
            cosine[n, k] = dot / norm
    for n in range(f.shape[0]):
        norm = _norm(f[n])
        top = -np.float32(np.inf)
        for k in range(p.shape[0]):
            cosine[n, k] /= norm
            top = max(top, temperature * cosine[n, k])
        total = ZERO
        for k in range(p.shape[0]):
            residual[n, k] = exp(fused(temperature, cosine[n, k], -top))
            total += residual[n, k]
        for k in range(p.shape[0]):
            residual[n, k] /= total
        loss[n] = fused(-temperature, cosine[n, labels[n]], log(total) + top)
        residual[n, labels[n]] -= ONE


@kernel
def entropy(loss, residual, cosine, temperature, weight):
    """loss (n,) = Shannon entropy of ``p = softmax(temperature * cosine)`` (n, k), in nats.

    residual (n, k) = weight times its gradient in the logits, ``-p_k (log p_k + entropy)``.
    """
    for n in range(cosine.shape[0]):
        top, total, mean = -np.float32(np.inf), ZERO, ZERO
        for k in range(cosine.shape[1]):
            top = max(top, temperature * cosine[n, k])
        for k in range(cosine.shape[1]):
            total += exp(fused(temperature, cosine[n, k], -top))
        for k in range(cosine.shape[1]):
            residual[n, k] = exp(fused(temperature, cosine[n, k], -top)) / total
            mean += residual[n, k] * (temperature * cosine[n, k] - top)
        loss[n] = log(total) - mean
        for k in range(cosine.shape[1]):
            residual[n, k] *= weight * (fused(-temperature, cosine[n, k], mean) + top)


@kernel
def prototype_loss_grad(gf, residual, cosine, f, p, temperature):
    """gf (n, d): gradient of the summed loss in the embeddings f, prototypes held constant.

    ``dL/df = t/|f| * sum_k r_k (p_k/|p_k| - cos_k f/|f|)`` with r the residual.
    """
    for n in range(f.shape[0]):
        norm = _norm(f[n])
        along = ZERO
        for k in range(p.shape[0]):
            along += residual[n, k] * cosine[n, k]
        for d in range(f.shape[1]):
            gf[n, d] = -along * f[n, d] / norm
    for k in range(p.shape[0]):
        inverse = ONE / _norm(p[k])
        for n in range(f.shape[0]):
            r = residual[n, k] * inverse
            for d in range(f.shape[1]):
                gf[n, d] = fused(r, p[k, d], gf[n, d])
    for n in range(f.shape[0]):
        scale = temperature / _norm(f[n])
        for d in range(f.shape[1]):
            gf[n, d] *= scale


@kernel
def class_sums(sums, counts, f, labels):
    """sums (k, d) += embeddings f (n, d) of each class, counts (k,) += their number."""
    for n in range(f.shape[0]):
        total = sums[labels[n]]
        for d in range(f.shape[1]):
            total[d] += f[n, d]
        counts[labels[n]] += ONE


@kernel
def cholesky(a):
    """Replace a (d, d), symmetric positive definite, by its lower factor in place (upper part untouched).

    Returns 0, or 1 if a pivot is not positive.
    """
    for j in range(a.shape[0]):
        total = a[j, j]
        for k in range(j):
            total -= a[j, k] * a[j, k]
        if not total > ZERO:
            return 1
        a[j, j] = math.sqrt(total)
        for i in range(j + 1, a.shape[0]):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = total / a[j, j]
    return 0


@kernel
def cholesky_solve(x, factor):
    """Replace each row of x (k, d) by A^-1 row, with A = L L^T given by its lower factor (d, d)."""
    size = factor.shape[0]
    for row in range(x.shape[0]):
        v = x[row]
        for i in range(size):
            total = v[i]
            for k in range(i):
                total -= factor[i, k] * v[k]
            v[i] = total / factor[i, i]
        for i in range(size - 1, -1, -1):
            total = v[i]
            for k in range(i + 1, size):
                total -= factor[k, i] * v[k]
            v[i] = total / factor[i, i]


@kernel
def inverse_diagonal(diagonal, factor):
    """diagonal (d,) = diagonal of A^-1, with A = L L^T given by its lower factor (d, d)."""
    for i in range(factor.shape[0]):
        # Column i of L^-1, from row i on, is stored in the unfinished part of the result.
        diagonal[i] = ONE / factor[i, i]
        total = diagonal[i] * diagonal[i]
        for row in range(i + 1, factor.shape[0]):
            line, column = factor[row, i:row], diagonal[i:row]
            value = ZERO
            for k in range(len(column)):
                value -= line[k] * column[k]
            diagonal[row] = value / factor[row, row]
            total += diagonal[row] * diagonal[row]
        diagonal[i] = total


@kernel
def add_outer(a, x, scale):
    """Lower triangle of a (d, d) += scale * sum over rows of x (n, d) of row row^T."""
    for n in range(x.shape[0]):
        row = x[n]
        for i in range(a.shape[0]):
            factor = scale * row[i]
            line = a[i]
            for j in range(i + 1):
                line[j] = fused(factor, row[j], line[j])


@kernel
def normalize_rows(x):
    """Scale every row of x (n, d) to length 1."""
    for n in range(x.shape[0]):
        inverse = ONE / _norm(x[n])
        for d in range(x.shape[1]):
            x[n, d] *= inverse
