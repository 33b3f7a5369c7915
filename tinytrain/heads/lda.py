"""Shrinkage LDA: one covariance for all classes, shrunk towards a multiple of the identity.

The form is that of Ledoit and Wolf 2004, with a fixed fraction, which suits a few images per class. At 0.7
(`METHOD`) the covariance counts for much, which helps if all images look alike to the network; at 0.95
(`MILD`) the head is near to cosine prototypes, which suits a network that knows its images well. The mean
of few images is noisy, and this noise lowers the offset of its class: without a correction, classes of one
image would lose to classes of five. An update gives what fitting to all embeddings gives: the covariance
follows from its factor.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tinytrain.heads.head import FITTING, STORED, HeadBuffer, Support
from tinytrain.heads.linear import linear_buffers
from tinytrain.heads.scatter import cholesky_of, gain_without, scatter_of, share_of_image
from tinytrain.heads.scatter_head import SCATTER, CovarianceHead, ScatterHead, ScatterMethod
from tinytrain.heads.triangle import Triangle, diagonal_of, diagonal_places, packed, unpacked
from tinytrain.kernels.rows import dot, dots

RIDGE = 1e-7  # added to the diagonal, for embeddings that do not vary


@dataclass(frozen=True, eq=False)
class LdaHead(ScatterHead):
    """`factor` is the packed lower Cholesky factor of the covariance, (d * (d + 1) / 2,), for updates."""

    factor: np.ndarray | None = None

    def for_delta(self, arrays: dict[str, np.ndarray]) -> "LdaHead":
        if self.deviations is not None:
            return self
        scatter, factor = arrays[SCATTER], arrays["factor"]
        if scatter.ndim == 2:
            packed(scatter, factor)
        else:
            np.copyto(factor, scatter)
        return replace(self, factor=factor)

    def for_any_number(self) -> "LdaHead":
        if self.deviations is None:
            return self
        scatter = scatter_of(self.deviations) / self.total
        diagonal = diagonal_of(scatter)
        ridge = ridge_of(float(diagonal.sum()), self.method.shrinkage, len(scatter))
        scatter *= 1 - self.method.shrinkage
        diagonal += ridge
        factor = packed(cholesky_of(scatter)).astype(self.deviations.dtype)
        return replace(self, deviations=None, factor=factor)

    def _scatter(self, kernels) -> np.ndarray:
        factor, shrinkage = unpacked(self.factor), self.method.shrinkage
        scatter = np.zeros_like(factor)
        kernels.add_outer(scatter, np.ascontiguousarray(factor.T), factor.dtype.type(1))
        diagonal = diagonal_of(scatter)
        trace = float(diagonal.sum()) - len(factor) * RIDGE
        diagonal -= factor.dtype.type(ridge_of(trace, shrinkage, len(factor)))
        scatter *= factor.dtype.type(self.total / (1 - shrinkage))
        return scatter

    def _follow(self, kernels, scatter: np.ndarray) -> None:
        solver = self.method.factored(Triangle(kernels, scatter), self.total)
        packed(scatter, self.factor)
        self.method.weigh(self, solver, self.counts / self.views)

    def problem(self) -> str | None:
        if self.factor is not None and self.factor[diagonal_places(self.embedding_size)].min() <= 0:
            return super().problem() or "the diagonal of head.factor must be above 0"
        return super().problem()


class Lda(ScatterMethod):
    """`shrinkage`, above 0 and below 1, is the weight of the identity in the covariance."""

    name, head = "lda", LdaHead
    limited = True
    packs = SCATTER
    shrinkage = 0.7
    sees_every_view = True

    def buffers(self, way: int, size: int):
        scatter = HeadBuffer(SCATTER, (size, size), FITTING)
        factor = HeadBuffer("factor", (size * (size + 1) // 2,), STORED)
        return (*linear_buffers(way, size), factor, scatter)

    def factored(self, scatter: Triangle, total: float) -> "Factored":
        ridge = self.shrinkage * scatter.trace() / total / scatter.size + RIDGE
        scatter.scale((1 - self.shrinkage) / total)
        scatter.add_to_diagonal(ridge)
        scatter.factorize()
        return Factored(scatter, self.shrinkage)

    def few_factors(self, rows: np.ndarray) -> tuple[float, float]:
        trace = sum(float(np.square(row, dtype=float).sum()) for row in rows) / len(rows)
        return (1 - self.shrinkage) / len(rows), ridge_of(trace, self.shrinkage, rows.shape[1])

    def weigh(self, head: ScatterHead, solver, images: np.ndarray) -> None:
        weights, means, excess = head.weights, head.means, solver.excess
        np.copyto(weights, means)
        solver.solve(weights)
        # One class after another: the products of all of them take as many bytes as the weights.
        for k in np.flatnonzero(head.counts):
            head.offsets[k] = lda_offsets(weights[k], means[k], excess, images[k])

    def left_out(self, head: ScatterHead, support: Support, solver) -> dict:
        means, excess = head.means, solver.excess

        def solved(x):
            found = x[None].astype(means.dtype)
            solver.solve(found)
            return found[0]

        def own_logit(mean, e, images):
            weights = solved(mean)
            return dot(weights, e) + lda_offsets(weights, mean, excess, images)

        def unseen(logits, e, label):
            """After `own_logit`: the covariance has not seen the image either."""
            images, deviation = int(support.images[label]), e - means[label]
            weights = solved(deviation)
            share = share_of_image(images, float(head.total) / (1 - self.shrinkage))
            squared = float(dot(weights, deviation))
            along = dots(means, weights)
            along[label] -= squared / (images - 1)
            gain = gain_without(share, squared)
            return logits + gain * (float(dot(weights, e)) * along - along * along / 2)

        return {"own_logit": own_logit, "unseen": unseen}


def ridge_of(trace: float, shrinkage: float, size: int) -> float:
    """What shrinkage adds to the diagonal of a covariance with this `trace`."""
    return shrinkage * trace / size + RIDGE


class Factored:
    """Solves with S, the shrunk covariance, by its Cholesky `factor`."""

    def __init__(self, factor: Triangle, shrinkage: float):
        self._factor, self._shrinkage = factor, shrinkage

    def solve(self, x: np.ndarray) -> None:
        """Replace each row of x (k, d) by S^-1 row."""
        self._factor.solve(x)

    @cached_property
    def excess(self) -> float:
        """trace(S^-1 C)."""
        return excess_of_means(self._factor, self._shrinkage)


def lda_offsets(weights: np.ndarray, means: np.ndarray, excess: float, images) -> np.ndarray:
    """-1/2 (mean^T S^-1 mean - excess / n) for every row of S^-1 means, n the `images` of its class.

    The mean of n images has noise of its own, which makes the product larger by trace(S^-1 C) / n on
    average; C is the covariance within classes. The correction is that of Moran and Murphy, "A closer look at
    two alternative methods of statistical discrimination", Applied Statistics 28, 1979. If images are few,
    C measured on the same images corrects about half of it.
    """
    return -0.5 * ((weights * means).sum(axis=-1) - excess / images)


def excess_of_means(factor: Triangle, shrinkage: float) -> float:
    """trace(S^-1 C) from the Cholesky factor of S = (1 - shrinkage) C + ridge * I.

    The ridge follows from trace(S), which is trace(C) + d * RIDGE.
    """
    d, trace = factor.size, factor.sum_of_squares()
    ridge = shrinkage * (trace / d - RIDGE) + RIDGE
    return max(0.0, (d - ridge * float(factor.inverse_diagonal().sum())) / (1 - shrinkage))


class MildLda(Lda):
    name = "mild-lda"
    shrinkage = 0.95


class Slda(Lda):
    """Streaming LDA (Deep SLDA): class means and covariance follow every image of a stream.

    It is LDA of the clean images alone, as a stream has no other ones; its delta keeps the covariance itself.
    After Hayes and Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis", CVPR
    workshops 2020. The published update weighs an outer product by the number of all images seen; here it is
    weighed by those of its class, and the result is that of LDA fitted to all images at once, in any order.
    """

    name, head = "slda", CovarianceHead
    sees_every_view = False
    buffers = ScatterMethod.buffers


METHOD, MILD, STREAMING = Lda(), MildLda(), Slda()
