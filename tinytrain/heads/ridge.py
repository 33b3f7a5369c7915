"""Closed-form ridge regression on one-hot targets, with an intercept that is not penalised.

``W = (X^T X + alpha I)^-1 X^T Y`` of centred embeddings X (n, d) and targets Y (n, way): Hoerl and Kennard,
"Ridge regression: biased estimation for nonorthogonal problems", Technometrics 12, 1970. Row k of ``Y^T X``
is the number of images of class k times the distance of its mean to that of all, so class means and the
covariance of all embeddings are a state that follows a stream.
"""

import numpy as np

from tinytrain.heads.head import Support
from tinytrain.heads.scatter import AROUND_ALL, mean_of_all
from tinytrain.heads.scatter_head import ScatterHead, ScatterMethod
from tinytrain.heads.triangle import Triangle

LEAST_LEVERAGE_LEFT = 1e-3  # of an image: one that determines its answer alone says nothing when left out


class Ridge(ScatterMethod):
    """`alpha` is that of scikit-learn."""

    name = "ridge"
    form = AROUND_ALL
    alpha = 0.3

    def factored(self, scatter: Triangle, total: float) -> Triangle:
        scatter.add_to_diagonal(self.alpha)
        scatter.factorize()
        return scatter

    def few_factors(self, rows: np.ndarray) -> tuple[float, float]:
        return 1.0, self.alpha

    def weigh(self, head: ScatterHead, means: np.ndarray, solver, images: np.ndarray) -> None:
        weights, whole = head.weights, mean_of_all(means, head.counts)
        for row, mean, count in zip(weights, means, head.counts.tolist(), strict=True):
            np.subtract(mean, whole, out=row)
            row *= row.dtype.type(count)
        solver.solve(weights)
        for k, count in enumerate(head.counts.tolist()):
            along = float(np.multiply(weights[k], whole, dtype=float).sum())
            head.offsets[k] = count / float(head.total) - along

    def left_out(self, head: ScatterHead, means: np.ndarray, support: Support, solver) -> dict:
        whole, total = mean_of_all(means, head.counts), float(head.total)

        def leave_out(logits, e, label):
            """Exact for the regression, by its leverage: Allen's PRESS."""
            centred = (e - whole)[None]
            solved = centred.copy()
            solver.solve(solved)
            left = max(LEAST_LEVERAGE_LEFT, 1 - 1 / total - float(solved[0] @ centred[0]))
            target = np.zeros_like(logits)
            target[label] = 1
            logits[:] = target - (target - logits) / left

        return {"leave_out": leave_out}


METHOD = Ridge()
