"""Scatter of embeddings around means: streamed, as a Cholesky factor, or by the few embeddings it is made of.

A scatter is (d, d) with the lower triangle alone in use, or that triangle packed (`heads.triangle`). Sums
over n embeddings (n, n) say the same, and are fewer numbers if n is small: heads and deltas get smaller.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from tinytrain.heads.calibration import BLOCK
from tinytrain.heads.head import Batch, Batches, Support
from tinytrain.heads.linear import MOST, class_means
from tinytrain.heads.triangle import Triangle, diagonal_of

# What an embedding is measured against:
WITHIN = "within"  # the mean of its class
AROUND_ALL = "around all"  # the mean of all
# What is left at least of an image that its own deviation explains, when that is taken out of the covariance.
LEAST_LEFT = 0.02


def scatter_around(kernels, scatter, means, counts, batches: Batches, form: str = WITHIN) -> Triangle:
    """Write the `scatter` of the embeddings of `batches`, their class `means` (way, d) and `counts`."""
    triangle = Triangle(kernels, scatter)
    scatter.fill(0)

    def outer_products() -> Iterator[Batch]:
        for embeddings, labels in batches():
            triangle.add_outer(embeddings, 1)
            yield embeddings, labels

    class_means(kernels, means, counts, outer_products())
    if form == AROUND_ALL:
        triangle.add_outer(mean_of_all(means, counts)[None], -counts.sum())
    else:
        for k in range(len(means)):
            triangle.add_outer(means[k : k + 1], -counts[k])
    return triangle


def stream(kernels, scatter, means, counts, batch, form: str = WITHIN) -> None:
    """Add `batch`, embeddings (n, d) with labels (n,), to a `scatter`, class `means` (way, d) and `counts`.

    Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics 4, 1962:
    the result is that of all embeddings at once, whatever their order.
    """
    whole = mean_of_all(means, counts)
    for embedding, label in zip(*batch, strict=True):
        n, seen = int(counts[label]), int(counts.sum(dtype=np.int64))
        before, mean = (seen, whole) if form == AROUND_ALL else (n, means[label])
        deviation = embedding - mean
        if before:
            kernels.add_outer(scatter, deviation[None], means.dtype.type(before / (before + 1)))
        means[label] += (embedding - means[label]) / (n + 1)
        whole += (embedding - whole) / (seen + 1)
        counts[label] = min(n + 1, MOST)


def gain_without(share: float, squared: float) -> float:
    """The inverse of a covariance S without ``share * x x^T`` is ``S^-1 + gain * u u^T`` with u = S^-1 x.

    x is the deviation of an image, and `squared` is x^T S^-1 x. Sherman and Morrison, "Adjustment of an
    inverse matrix corresponding to a change in one element of a given matrix", 1950.
    """
    return share / max(1 - share * squared, LEAST_LEFT)


def share_of_image(images: int, total: float) -> float:
    """The weight of the deviation of one of `images` of a class in a covariance that is divided by `total`.

    The deviation is that from the mean of all images of the class, which moves when the image is left out.
    """
    return images / (images - 1) / total


def mean_of_all(means: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean (d,) of all embeddings from those of classes, (way, d), that so many `counts` (way,) have."""
    whole, total = np.zeros_like(means[0]), max(1, sum(counts.tolist()))
    for mean, count in zip(means, counts.tolist(), strict=True):
        whole += mean * (count / total)
    return whole


def deviations(kernels, arrays: dict[str, np.ndarray], support: Support, form: str = WITHIN) -> np.ndarray:
    """The array of that name: every embedding minus the mean of its class, or of all. Writes the means."""
    rows, labels, means = arrays["deviations"], arrays["labels of rows"], arrays["means"]

    def kept() -> Iterator[Batch]:
        first = 0
        for embeddings, given in support.every_view():
            part = slice(first, first + len(given))
            rows[part], labels[part], first = embeddings, given, part.stop
            yield embeddings, given

    class_means(kernels, means, arrays["class counts"], kept())
    whole = mean_of_all(means, arrays["class counts"])
    for row, label in zip(rows, labels, strict=True):
        row -= whole if form == AROUND_ALL else means[label]
    return rows


def scatter_of(rows: np.ndarray) -> np.ndarray:
    """``rows^T rows`` (d, d) of rows (n, d), in float64 and without BLAS, as are the sums of `Woodbury`."""
    scatter = np.zeros((rows.shape[1],) * 2)
    for row in rows.astype(float):
        scatter += row[:, None] * row
    return scatter


def cholesky_of(matrix: np.ndarray) -> np.ndarray:
    """The lower Cholesky factor (d, d) of `matrix`, in its place and without BLAS."""
    for j, column in enumerate(matrix.T):
        column[:j] = 0
        column[j:] /= np.sqrt(column[j])
        matrix[j + 1 :, j + 1 :] -= column[j + 1 :, None] * column[j + 1 :]
    return matrix


class Woodbury:
    """Solves with ``scale * rows^T rows + ridge * I``, without that matrix, inside `gram` (n, n).

    `rows` (n, d) are read as long as this is used. The identity is that of Woodbury:
    ``S^-1 x = (x - rows^T G^-1 rows x) / ridge`` with ``G = rows rows^T + ridge / scale * I``.
    """

    def __init__(self, kernels, gram: np.ndarray, rows: np.ndarray, scale: float, ridge: float):
        self._kernels, self._rows, self._scale, self._gram = kernels, rows, scale, gram
        self._ridge, self._added = rows.dtype.type(ridge), ridge / scale
        gram.fill(0)
        step = max(1, BLOCK // len(rows))
        for first in range(0, rows.shape[1], step):
            columns = np.ascontiguousarray(rows[:, first : first + step].T)
            kernels.add_outer(gram, columns, rows.dtype.type(1))
        diagonal_of(gram)[:] += rows.dtype.type(self._added)
        kernels.cholesky(gram)

    def solve(self, x: np.ndarray) -> None:
        """Replace each row of x (k, d) by S^-1 row.

        Not by BLAS: portable kernels give the same bits on every processor.
        """
        along = np.empty((1, len(self._rows)), x.dtype)
        for value in x:
            along[0] = [np.multiply(row, value, dtype=float).sum() for row in self._rows]
            self._kernels.cholesky_solve(along, self._gram)
            for row, factor in zip(self._rows, along[0], strict=True):
                value -= factor * row
            value /= self._ridge

    @cached_property
    def excess(self) -> float:
        """trace(S^-1 C) of the covariance C, the mean of the squares of n rows."""
        inverse = np.empty(len(self._gram), self._rows.dtype)
        self._kernels.inverse_diagonal(inverse, self._gram)
        degrees = max(0.0, len(self._gram) - self._added * float(inverse.sum()))
        return degrees / (self._scale * len(self._rows))
