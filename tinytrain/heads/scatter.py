"""Scatter of embeddings around means: from their moments, or by the few embeddings it is made of.

A scatter is (d, d) with the lower triangle alone in use, or that triangle packed (`heads.triangle`). Products
of n embeddings (n, n) say the same, and are fewer numbers if n is small: heads and deltas get smaller.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from tinytrain.heads.calibration import BLOCK
from tinytrain.heads.head import Batch, Batches, Support
from tinytrain.heads.linear import class_means
from tinytrain.heads.moments import UNIT, on_grid
from tinytrain.heads.triangle import Triangle, diagonal_of

# What an embedding is measured against:
WITHIN = "within"  # the mean of its class
AROUND_ALL = "around all"  # the mean of all
# What is left at least of an image that its own deviation explains, when that is taken out of the covariance.
LEAST_LEFT = 0.02


def scatter_around(kernels, scatter, means, counts, batches: Batches) -> None:
    """Write the `scatter` (d, d) of the embeddings of `batches`, class `means` (way, d) and `counts`."""
    scatter.fill(0)

    def outer_products() -> Iterator[Batch]:
        for embeddings, labels in batches():
            kernels.add_outer(scatter, embeddings, scatter.dtype.type(1))
            yield embeddings, labels

    class_means(kernels, means, counts, outer_products())
    for mean, count in zip(means, counts, strict=True):
        kernels.add_outer(scatter, mean[None], -count)


def scatter_of_sums(
    kernels, products: np.ndarray, means: np.ndarray, counts: np.ndarray, scatter: np.ndarray, form: str
) -> Triangle:
    """The `scatter` (d * (d + 1) / 2,) of all embeddings of these `products`, class `means` and `counts`."""
    np.copyto(scatter, products, casting="unsafe")
    scatter *= scatter.dtype.type(1 / UNIT)
    triangle = Triangle(kernels, scatter)
    if form == AROUND_ALL:
        triangle.add_outer(mean_of_all(means, counts)[None], -sum(counts.tolist()))
    else:
        for mean, count in zip(means, counts.tolist(), strict=True):
            triangle.add_outer(mean[None], -count)
    return triangle


def add_moments(kernels, products: np.ndarray, sums: np.ndarray, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Each of `batches`, which is added to `products` and `sums` (`heads.moments`)."""
    for embeddings, labels in batches:
        kernels.add_products(products, embeddings)
        kernels.add_rounded(sums, embeddings, labels)
        yield embeddings, labels


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
    """Every rounded embedding minus the mean of its class, or of all, in their array. Writes the means."""
    rows, labels, means = (arrays[name] for name in ("embeddings", "labels", "means"))

    def kept() -> Iterator[Batch]:
        first = 0
        for embeddings, given in support.every_view():
            part = slice(first, first + len(given))
            rows[part], labels[part], first = on_grid(embeddings), given, part.stop
            yield embeddings, given

    class_means(kernels, means, arrays["class counts"], kept())
    for row, centre in zip(rows, _centres(labels, means, arrays["class counts"], form), strict=True):
        row -= centre
    return rows


def restore(rows: np.ndarray, labels: np.ndarray, means: np.ndarray, counts: np.ndarray, form: str) -> None:
    """Undo `deviations` to the last bit: rounding costs less than half of their unit."""
    for row, centre in zip(rows, _centres(labels, means, counts, form), strict=True):
        row += centre
        row[:] = on_grid(row)


def _centres(labels: np.ndarray, means: np.ndarray, counts: np.ndarray, form: str) -> Iterator[np.ndarray]:
    whole = mean_of_all(means, counts)
    return (whole if form == AROUND_ALL else means[label] for label in labels)


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

        Not by BLAS, which adds in an order that depends on the processor.
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
