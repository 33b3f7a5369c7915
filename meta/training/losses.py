"""Losses of the offline stage on embeddings: value, gradient in the embeddings, and what else they train.

Embeddings are (n, d) float32; everything here is small next to the passes through the network, so it
is plain numpy in float64 where sums run over many terms.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.heads.lda import METHOD

TINY = 1e-12


@dataclass(frozen=True)
class Loss:
    """A mean loss, its gradient (n, d) in the embeddings, that in `extra` parameters, and accuracy."""

    value: float
    gradient: np.ndarray
    extra: np.ndarray
    accuracy: float = float("nan")


def unit(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of x (n, d) at length 1, and their lengths (n, 1)."""
    length = np.sqrt((x * x).sum(axis=1, keepdims=True) + TINY)
    return x / length, length


def through_unit(gradient: np.ndarray, direction: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Gradient in x from that in x / |x|: what lies along x is lost."""
    return (gradient - (gradient * direction).sum(axis=1, keepdims=True) * direction) / length


def _softmax(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Mean cross-entropy, (softmax - one-hot) / n, accuracy."""
    logits = logits - logits.max(axis=1, keepdims=True)
    probabilities = np.exp(logits)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    value = -np.log(probabilities[rows, labels] + 1e-300).mean()
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    probabilities[rows, labels] -= 1
    return float(value), probabilities / len(labels), accuracy


def episode_loss(embeddings: np.ndarray, labels: np.ndarray, n_support: int, scale: float) -> Loss:
    """Cross-entropy of ``scale * cos(query, prototype)``, prototypes being class means of the support.

    The first `n_support` rows are support; `labels` (n,) counts classes from 0, each with support. The
    gradient is exact: through queries and prototypes. ``extra`` is the gradient in `scale`:
    ``mean over queries of sum_c (softmax - one-hot)_c cos_c``. (Snell et al. 2017, with cosine and scale.)
    """
    x = embeddings.astype(np.float64)
    support, queries = x[:n_support], x[n_support:]
    member = np.equal.outer(np.arange(labels.max() + 1), labels[:n_support]).astype(np.float64)
    member /= member.sum(axis=1, keepdims=True)
    p, p_length = unit(member @ support)
    q, q_length = unit(queries)
    cosine = q @ p.T
    value, residual, accuracy = _softmax(scale * cosine, labels[n_support:])
    grad_q = through_unit(scale * residual @ p, q, q_length)
    grad_p = through_unit(scale * residual.T @ q, p, p_length)
    gradient = np.concatenate([member.T @ grad_p, grad_q]).astype(np.float32)
    return Loss(value, gradient, np.array([(residual * cosine).sum()], np.float32), accuracy)


def lda_loss(embeddings: np.ndarray, labels: np.ndarray, n_support: int, scale: float) -> Loss:
    """Cross-entropy of ``scale`` times the logits of shrinkage LDA on unit embeddings, as on the device.

    With class means m, covariance C within classes, t = trace(C) / d and S = (1 - r) C / t + r I, the logit
    of a query q for a class is ``q S^-1 m - m S^-1 m / 2``; r is the shrinkage of the head. Dividing by t
    changes all logits by one factor, which keeps `scale` in the range of that of cosines. Rows, labels and
    ``extra`` are those of `episode_loss`. The gradient is exact: through queries, means and covariance.
    """
    x, length = unit(embeddings.astype(np.float64))
    support, q = x[:n_support], x[n_support:]
    member = np.equal.outer(np.arange(labels.max() + 1), labels[:n_support]).astype(np.float64)
    member /= member.sum(axis=1, keepdims=True)
    means, d, r = member @ support, x.shape[1], METHOD.shrinkage
    apart = support - means[labels[:n_support]]
    covariance = apart.T @ apart / n_support
    t = covariance.trace() / d + TINY
    shrunk = (1 - r) / t * covariance + r * np.eye(d)
    weights = np.linalg.solve(shrunk, means.T).T
    logits = q @ weights.T - (means * weights).sum(axis=1) / 2
    value, residual, accuracy = _softmax(scale * logits, labels[n_support:])
    g = scale * residual  # in the logits
    each = g.sum(axis=0)[:, None]
    solved = np.linalg.solve(shrunk, q.T @ g).T  # S^-1 applied to the gradient in the weights
    grad_means = solved - each * weights
    in_shrunk = (weights * each).T @ weights / 2 - (solved.T @ weights + weights.T @ solved) / 2
    in_covariance = (in_shrunk - (in_shrunk * covariance).sum() / (t * d) * np.eye(d)) * (1 - r) / t
    # The mean of `apart` over a class is 0, so nothing goes through the means in it.
    grad_support = member.T @ grad_means + apart @ in_covariance * (2 / n_support)
    gradient = through_unit(np.concatenate([grad_support, g @ weights]), x, length).astype(np.float32)
    return Loss(value, gradient, np.array([(residual * logits).sum()], np.float32), accuracy)


def class_loss(embeddings: np.ndarray, labels: np.ndarray, head: np.ndarray, scale: float) -> Loss:
    """Cross-entropy of ``scale * cos(embedding, row of head)``; that in `head` (classes, d) is extra."""
    f, f_length = unit(embeddings.astype(np.float64))
    w, w_length = unit(head.astype(np.float64))
    value, residual, accuracy = _softmax(scale * (f @ w.T), labels)
    gradient = through_unit(scale * residual @ w, f, f_length).astype(np.float32)
    extra = through_unit(scale * residual.T @ f, w, w_length).astype(np.float32)
    return Loss(value, gradient, extra.reshape(-1), accuracy)


def cosine_loss(embeddings: np.ndarray, wanted: np.ndarray) -> Loss:
    """Mean of 1 - cos(embedding, wanted), both (n, d)."""
    f, length = unit(embeddings.astype(np.float64))
    t, _ = unit(wanted.astype(np.float64))
    cosine = (f * t).sum(axis=1)
    gradient = through_unit(-t / len(f), f, length).astype(np.float32)
    return Loss(float((1 - cosine).mean()), gradient, np.empty(0, np.float32), float(cosine.mean()))


def relational_loss(embeddings: np.ndarray, wanted: np.ndarray) -> Loss:
    """Mean squared difference of the cosine matrices of a batch; `wanted` may have another width.

    Pairs of an image with itself do not count. (Park et al. 2019, relational distillation, with cosines.)
    """
    f, length = unit(embeddings.astype(np.float64))
    t, _ = unit(wanted.astype(np.float64))
    difference = f @ f.T - t @ t.T
    np.fill_diagonal(difference, 0)
    pairs = len(f) * (len(f) - 1)
    # Every pair stands twice in the symmetric matrix, and both images of it move.
    gradient = through_unit(4 * difference @ f / pairs, f, length).astype(np.float32)
    value = float((difference**2).sum() / pairs)
    return Loss(value, gradient, np.empty(0, np.float32))


def feature_loss(
    outputs: list[np.ndarray], wanted: list[np.ndarray], scales: list[np.ndarray], weight: float
) -> tuple[float, list[np.ndarray]]:
    """`weight` times the mean over blocks of the mean squared error in units of each channel's spread.

    `outputs` and `wanted` are (n, height, width, channels) per block, `scales` (channels,). The gradients
    are float32 and take the memory of `outputs`.
    """
    value = 0.0
    for y, t, scale in zip(outputs, wanted, scales, strict=True):
        y -= t
        y /= scale
        factor = weight / (len(outputs) * y.size)
        value += factor * float(np.vdot(y, y))
        y *= np.float32(2 * factor) / scale
    return value, outputs
