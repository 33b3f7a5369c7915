"""Heads: prototype loss with its gradients, sums over classes and rows of length 1, all in place."""

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
def normalize_rows(x):
    """Scale every row of x (n, d) to length 1."""
    for n in range(x.shape[0]):
        inverse = ONE / _norm(x[n])
        for d in range(x.shape[1]):
            x[n, d] *= inverse
