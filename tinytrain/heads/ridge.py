"""Closed-form ridge regression on one-hot targets, with an intercept that is not penalised.

``W = (X^T X + alpha I)^-1 X^T Y`` of centred embeddings X (n, d) and targets Y (n, way): Hoerl and Kennard,
"Ridge regression: biased estimation for nonorthogonal problems", Technometrics 12, 1970. Row k of ``Y^T X``
is the number of images of class k times the distance of its mean to that of all, so class means and the
covariance of all embeddings are a state that follows a stream.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.heads.few import Few, deviations
from tinytrain.heads.head import Support
from tinytrain.heads.linear import calibrated, class_means
from tinytrain.heads.scatter import AROUND_ALL, keep_covariance, mean_of_all, outer_products
from tinytrain.heads.scatter_head import SCATTER, CovarianceHead, ScatterMethod, with_scatter
from tinytrain.heads.triangle import diagonal_of

LEAST_LEVERAGE_LEFT = 1e-3  # of an image: one that determines its answer alone says nothing when left out


@dataclass(frozen=True, eq=False)
class RidgeHead(CovarianceHead):
    def _solve(self, kernels, scatter: np.ndarray) -> None:
        keep_covariance(scatter, self.total, self.covariance)
        self.method.factor(kernels, scatter)

        def solve(x):
            kernels.cholesky_solve(x, scatter)

        regress(solve, self.weights, self.offsets, self.means, self.counts)


class Ridge(ScatterMethod):
    """`alpha` is what scikit-learn calls so."""

    name, head = "ridge", RidgeHead
    form = AROUND_ALL
    alpha = 0.3

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> RidgeHead:
        few = "deviations" in arrays
        solve = (self._few if few else self._any_number)(kernels, arrays, support)
        weights, offsets, means = arrays["weights"], arrays["offsets"], arrays["means"]
        counts = arrays["class counts"]
        regress(solve, weights, offsets, means, counts)
        whole, total = mean_of_all(means, counts), float(counts.sum())

        def leave_out(logits, e, label):
            """Exact for the regression, by its leverage: Allen's PRESS."""
            centred = (e - whole)[None]
            solved = centred.copy()
            solve(solved)
            left = max(LEAST_LEVERAGE_LEFT, 1 - 1 / total - float(solved[0] @ centred[0]))
            target = np.zeros_like(logits)
            target[label] = 1
            logits[:] = target - (target - logits) / left

        return with_scatter(calibrated(self, arrays, support, leave_out=leave_out), arrays)

    def _any_number(self, kernels, arrays: dict[str, np.ndarray], support: Support):
        scatter, means, counts = arrays[SCATTER], arrays["means"], arrays["class counts"]
        class_means(kernels, means, counts, outer_products(kernels, scatter, support.every_view))
        total = means.dtype.type(counts.sum())
        kernels.add_outer(scatter, mean_of_all(means, counts)[None], -total)
        keep_covariance(scatter, total, arrays["covariance"])
        self.factor(kernels, scatter)
        return lambda x: kernels.cholesky_solve(x, scatter)

    def _few(self, kernels, arrays: dict[str, np.ndarray], support: Support):
        rows = deviations(kernels, arrays, support, self.form)
        return Few(kernels, arrays["gram"], rows, 1.0, self.alpha).solve

    def factor(self, kernels, scatter: np.ndarray) -> None:
        """`scatter` around the mean of all becomes the Cholesky factor of what is solved with."""
        diagonal_of(scatter)[:] += scatter.dtype.type(self.alpha)
        kernels.cholesky(scatter)


def regress(solve, weights: np.ndarray, offsets: np.ndarray, means: np.ndarray, counts: np.ndarray) -> None:
    """Write weights (way, d) and offsets (way,); ``solve(x)`` replaces each row of x by S^-1 row."""
    whole, total = mean_of_all(means, counts), float(counts.sum())
    for row, mean, count in zip(weights, means, counts.tolist(), strict=True):
        np.subtract(mean, whole, out=row)
        row *= row.dtype.type(count)
    solve(weights)
    for k, count in enumerate(counts.tolist()):
        offsets[k] = count / total - float(np.multiply(weights[k], whole, dtype=float).sum())


METHOD = Ridge()
