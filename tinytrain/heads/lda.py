"""Shrinkage LDA: one covariance for all classes, shrunk towards a multiple of the identity.

The form is that of Ledoit and Wolf 2004, with a fixed fraction, which suits a few images per class. At 0.7
(`METHOD`) the covariance counts for much, which helps if all images look alike to the network; at 0.95
(`MILD`) the head is near to cosine prototypes, which suits a network that knows its images well. The mean
of few images is noisy, and this noise lowers the offset of its class: without a correction, classes of one
image would lose to classes of five. An update gives what fitting to all embeddings gives.
"""

import math
from functools import cached_property

import numpy as np

from tinytrain.heads.head import Support
from tinytrain.heads.moments import UNIT
from tinytrain.heads.scatter import gain_without, share_of_image
from tinytrain.heads.scatter_head import ScatterHead, ScatterMethod
from tinytrain.heads.triangle import Triangle, diagonal_of, packed, unpacked
from tinytrain.kernels.rows import dot, dots

RIDGE = 1e-7  # added to the diagonal, for embeddings that do not vary


class Lda(ScatterMethod):
    """`shrinkage`, above 0 and below 1, is the weight of the identity in the covariance."""

    name = "lda"
    limited = True
    shrinkage = 0.7
    sees_every_view = True

    def current(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Older deltas have the packed Cholesky factor of the shrunk covariance."""
        factor = found.get("factor")
        if factor is None or factor.ndim != 1 or not len(factor) or not np.abs(factor).max() <= 2:
            return super().current(found)
        lower = unpacked(factor).astype(float)
        covariance, size = lower @ lower.T, len(lower)
        trace = np.trace(covariance) - size * RIDGE
        diagonal_of(covariance)[:] -= self.shrinkage * trace / size + RIDGE
        rest = {name: a for name, a in found.items() if name != "factor"}
        return super().current(rest | {"covariance": packed(covariance / (1 - self.shrinkage))})

    def factored(self, scatter: Triangle, total: float) -> "Factored":
        ridge = ridge_of(scatter.trace() / total, self.shrinkage, scatter.size)
        scatter.scale((1 - self.shrinkage) / total)
        scatter.add_to_diagonal(ridge)
        scatter.factorize()
        return Factored(scatter, self.shrinkage, ridge)

    def few_factors(self, rows: np.ndarray) -> tuple[float, float]:
        trace = sum(float(np.square(row, dtype=float).sum()) for row in rows) / len(rows)
        return (1 - self.shrinkage) / len(rows), ridge_of(trace, self.shrinkage, rows.shape[1])

    def weigh(self, head: ScatterHead, means: np.ndarray, solver, images: np.ndarray) -> None:
        weights, excess = head.weights, solver.excess
        np.copyto(weights, means)
        solver.solve(weights)
        # One class after another: the products of all of them take as many bytes as the weights.
        for k in np.flatnonzero(head.counts):
            head.offsets[k] = lda_offsets(weights[k], means[k], excess, images[k])

    def left_out(self, head: ScatterHead, means: np.ndarray, support: Support, solver) -> dict:
        excess = solver.excess

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
    return max(shrinkage * trace / size, least_ridge(shrinkage, size)) + RIDGE


def least_ridge(shrinkage: float, size: int) -> float:
    """More than what rounding of the products (`heads.moments`) may take from an eigenvalue."""
    return (1 - shrinkage) * 2 * math.sqrt(size) / UNIT


class Factored:
    """Solves with S, the shrunk covariance with this `ridge` on its diagonal, by its Cholesky `factor`."""

    def __init__(self, factor: Triangle, shrinkage: float, ridge: float):
        self._factor, self._shrinkage, self._ridge = factor, shrinkage, ridge

    def solve(self, x: np.ndarray) -> None:
        """Replace each row of x (k, d) by S^-1 row."""
        self._factor.solve(x)

    @cached_property
    def excess(self) -> float:
        """trace(S^-1 C), from S = (1 - shrinkage) C + ridge * I."""
        degrees = self._factor.size - self._ridge * float(self._factor.inverse_diagonal().sum())
        return max(0.0, degrees / (1 - self._shrinkage))


def lda_offsets(weights: np.ndarray, means: np.ndarray, excess: float, images) -> np.ndarray:
    """-1/2 (mean^T S^-1 mean - excess / n) for every row of S^-1 means, n the `images` of its class.

    The mean of n images has noise of its own, which makes the product larger by trace(S^-1 C) / n on
    average; C is the covariance within classes. The correction is that of Moran and Murphy, "A closer look at
    two alternative methods of statistical discrimination", Applied Statistics 28, 1979. If images are few,
    C measured on the same images corrects about half of it.
    """
    return -0.5 * ((weights * means).sum(axis=-1) - excess / images)


class MildLda(Lda):
    name = "mild-lda"
    shrinkage = 0.95


class Slda(Lda):
    """Streaming LDA (Deep SLDA): class means and covariance follow every image of a stream.

    It is LDA of the clean images alone, as a stream has no other ones.
    After Hayes and Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis", CVPR
    workshops 2020. The published update weighs an outer product by the number of all images seen; here it is
    weighed by those of its class, and the result is that of LDA fitted to all images at once, in any order.
    """

    name = "slda"
    sees_every_view = False


METHOD, MILD, STREAMING = Lda(), MildLda(), Slda()
