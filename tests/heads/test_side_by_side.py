"""LDA from inner products is LDA, and an image that is left out is judged as if it had never been there."""

import numpy as np
import pytest

from tinytrain import kernels
from tinytrain.drift.refit import fitted
from tinytrain.heads.head import unit
from tinytrain.heads.lda import METHOD, RIDGE
from tinytrain.heads.registry import find_head
from tinytrain.heads.side_by_side import JointLda

COUNTS = (2, 5, 3)
LABELS = np.repeat(np.arange(len(COUNTS)), COUNTS)


@pytest.fixture(scope="module")
def parts():
    """Embeddings of length 1 by two networks, of the support and of six queries behind it."""
    r = np.random.default_rng(0)
    labels = np.concatenate([LABELS, np.arange(6) % 3])
    return [unit(r.normal(size=(3, d))[labels] + r.normal(size=(len(labels), d))) for d in (7, 20)]


def head_of(parts) -> JointLda:
    return JointLda(sum(part @ part.T for part in parts), LABELS, sum(part.shape[1] for part in parts))


def test_the_logits_are_those_of_the_head_on_embeddings_side_by_side(parts):
    every = np.concatenate(parts, axis=1).astype(np.float32)
    head = fitted(find_head("lda"), kernels.load(), every[: len(LABELS)], LABELS)
    want = unit(every[len(LABELS) :]) @ head.weights.T + head.offsets
    np.testing.assert_allclose(head_of(parts).logits(), want, rtol=1e-3, atol=1e-3)


def test_an_image_is_left_out_of_its_mean_and_of_the_covariance(parts):
    x = np.concatenate(parts, axis=1)[: len(LABELS)]
    n, size = x.shape
    means = np.stack([x[k == LABELS].mean(axis=0) for k in range(3)])
    within, shrinkage = (x - means[LABELS]).T @ (x - means[LABELS]) / n, METHOD.shrinkage
    ridge = shrinkage * np.trace(within) / size + RIDGE
    shrunk = (1 - shrinkage) * within + ridge * np.eye(size)
    excess = np.trace(np.linalg.solve(shrunk, within))
    for i, row in enumerate(head_of(parts).left_out()):
        own, images, others = LABELS[i], np.array(COUNTS), np.arange(n) != i
        deviation = x[i] - means[own]
        taken = (1 - shrinkage) * images[own] / (images[own] - 1) / n * np.outer(deviation, deviation)
        mine = means.copy()
        mine[own], images[own] = x[others & (own == LABELS)].mean(axis=0), images[own] - 1
        weights = np.linalg.solve(shrunk - taken, mine.T).T
        lengths = (weights * mine).sum(axis=1)
        np.testing.assert_allclose(row, weights @ x[i] - (lengths - excess / images) / 2, rtol=1e-6)
