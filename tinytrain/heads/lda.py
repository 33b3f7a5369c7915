"""Shrinkage LDA: one covariance for all classes, shrunk towards a multiple of the identity.

The form is that of Ledoit and Wolf 2004, with a fixed fraction, which suits a few images per class. At 0.7
(`METHOD`) the covariance counts for much, which helps if all images look alike to the network; at 0.95
(`MILD`) the head is near to cosine prototypes, which suits a network that knows its images well. The mean
of few images is noisy, and this noise lowers the offset of its class: without a correction, classes of one
image would lose to classes of five. An update moves class means and offsets; the covariance does not change.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.heads.head import (
    FITTING,
    STORED,
    WHEN_FITTED,
    Batch,
    Batches,
    HeadBuffer,
    HeadMethod,
    Support,
)
from tinytrain.heads.linear import LinearHead, calibrated, class_means, linear_buffers

RIDGE = 1e-7  # added to the diagonal, for embeddings that do not vary
SCATTER = "scatter matrix"


@dataclass(frozen=True, eq=False)
class LdaHead(LinearHead):
    """`factor` is the packed lower Cholesky factor of the covariance, (d * (d + 1) / 2,), for updates."""

    factor: np.ndarray | None = None

    def for_delta(self, arrays: dict[str, np.ndarray]) -> "LdaHead":
        return replace(self, factor=packed(arrays[SCATTER], arrays["factor"]))

    def _solve(self, kernels, changed: np.ndarray) -> None:
        factor, means = unpacked(self.factor), self.means[changed]
        rows = means.copy()
        kernels.cholesky_solve(rows, factor)
        excess = excess_of_means(kernels, factor, self.method.shrinkage)
        images = self.counts[changed] / self.views
        self.offsets[changed] = lda_offsets(rows, means, excess, images)
        self.weights[changed] = rows

    def problem(self) -> str | None:
        diagonal = np.cumsum(np.arange(1, self.embedding_size + 1)) - 1
        indefinite = self.factor[diagonal].min() <= 0
        return super().problem() or ("the diagonal of head.factor must be above 0" if indefinite else None)


class Lda(HeadMethod):
    """`shrinkage`, above 0 and below 1, is the weight of the identity in the covariance."""

    name, head = "lda", LdaHead
    shrinkage = 0.7
    sees_every_view = True
    mixes_classes = WHEN_FITTED

    def buffers(self, way: int, size: int):
        scatter = HeadBuffer(SCATTER, (size, size), FITTING)
        factor = HeadBuffer("factor", (size * (size + 1) // 2,), STORED)
        return (*linear_buffers(way, size), factor, scatter)

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> LdaHead:
        scatter, means, counts = arrays[SCATTER], arrays["means"], arrays["class counts"]
        scatter.fill(0)
        class_means(kernels, means, counts, _with_scatter(kernels, scatter, support.every_view))
        _covariance_factor(kernels, scatter, means, counts, self.shrinkage)
        weights = arrays["weights"]
        np.copyto(weights, means)
        kernels.cholesky_solve(weights, scatter)
        excess = excess_of_means(kernels, scatter, self.shrinkage)
        # One class after another: the products of all of them take as many bytes as the weights.
        for k, images in enumerate(support.images):
            arrays["offsets"][k] = lda_offsets(weights[k], means[k], excess, images)

        def own_logit(mean, e, images):
            solved = mean[None].astype(np.float32)
            kernels.cholesky_solve(solved, scatter)
            return solved[0] @ e + lda_offsets(solved[0], mean, excess, images)

        return calibrated(self, arrays, support, own_logit)


def _with_scatter(kernels, scatter: np.ndarray, batches: Batches) -> Iterator[Batch]:
    """The batches, whose outer products are added to `scatter` (d, d)."""
    for embeddings, labels in batches():
        kernels.add_outer(scatter, embeddings, np.float32(1))
        yield embeddings, labels


def _covariance_factor(
    kernels, scatter: np.ndarray, means: np.ndarray, counts: np.ndarray, shrinkage: float
) -> None:
    """`scatter` becomes the Cholesky factor of S, the shrunk covariance within classes."""
    for k in range(len(means)):
        kernels.add_outer(scatter, means[k : k + 1], -counts[k])
    total = float(counts.sum())
    diagonal = scatter.reshape(-1)[:: len(scatter) + 1]
    ridge = shrinkage * float(diagonal.sum()) / total / len(scatter) + RIDGE
    np.multiply(scatter, np.float32((1 - shrinkage) / total), out=scatter)
    diagonal += np.float32(ridge)
    kernels.cholesky(scatter)


def lda_offsets(weights: np.ndarray, means: np.ndarray, excess: float, images) -> np.ndarray:
    """-1/2 (mean^T S^-1 mean - excess / n) for every row of S^-1 means, n the `images` of its class.

    The mean of n images has noise of its own, which makes the product larger by trace(S^-1 C) / n on
    average; C is the covariance within classes. The correction is that of Moran and Murphy, "A closer look at
    two alternative methods of statistical discrimination", Applied Statistics 28, 1979. If images are few,
    C measured on the same images corrects about half of it.
    """
    return -0.5 * ((weights * means).sum(axis=-1) - excess / images)


def excess_of_means(kernels, factor: np.ndarray, shrinkage: float) -> float:
    """trace(S^-1 C) from the Cholesky factor (d, d) of S = (1 - shrinkage) C + ridge * I.

    The ridge follows from trace(S), which is trace(C) + d * RIDGE.
    """
    d = len(factor)
    trace = sum(float(np.square(row[: i + 1], dtype=np.float64).sum()) for i, row in enumerate(factor))
    inverse = np.empty(d, np.float32)
    kernels.inverse_diagonal(inverse, factor)
    ridge = shrinkage * (trace / d - RIDGE) + RIDGE
    return max(0.0, (d - ridge * float(inverse.sum())) / (1 - shrinkage))


def packed(factor: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Lower triangle of (d, d), row by row, as (d * (d + 1) / 2,), in `out` if that is given."""
    return np.concatenate([row[: i + 1] for i, row in enumerate(factor)], out=out)


def unpacked(values: np.ndarray) -> np.ndarray:
    """The (d, d) array whose lower triangle `packed` took; zero above the diagonal."""
    size = int((np.sqrt(8 * len(values) + 1) - 1) / 2)
    factor, start = np.zeros((size, size), np.float32), 0
    for i, row in enumerate(factor):  # row by row: the indices of a triangle take four times its memory
        row[: i + 1] = values[start : start + i + 1]
        start += i + 1
    return factor


class MildLda(Lda):
    name = "mild-lda"
    shrinkage = 0.95


METHOD, MILD = Lda(), MildLda()
