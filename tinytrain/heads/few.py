"""Few embeddings of many values: sums over the embeddings (n, n) say the same as their scatter (d, d).

This makes heads that keep a scatter smaller, and their deltas.
"""

from collections.abc import Iterator

import numpy as np

from tinytrain.heads.calibration import BLOCK
from tinytrain.heads.head import FITTING, UPDATING, Batch, Batches, HeadBuffer, Support
from tinytrain.heads.linear import class_means
from tinytrain.heads.scatter import AROUND_ALL, WITHIN, mean_of_all
from tinytrain.heads.triangle import diagonal_of


def are_few(embeddings: int, size: int) -> bool:
    """Whether so many rows of `size` values take no more than the lower triangle of their scatter."""
    return 2 * embeddings <= size + 1


def few_buffers(size: int, embeddings: int) -> tuple[HeadBuffer, ...]:
    """Beside `linear_buffers`, what few embeddings take in place of their scatter."""
    return (
        HeadBuffer("deviations", (embeddings, size), UPDATING),
        HeadBuffer("gram", (embeddings, embeddings), FITTING),
        HeadBuffer("labels of rows", (embeddings,), FITTING, "int32"),
    )


def deviations(kernels, arrays: dict[str, np.ndarray], support: Support, form: str = WITHIN) -> np.ndarray:
    """The array of that name: every embedding minus the mean of its class, or of all. Writes the means."""
    rows, labels, means = arrays["deviations"], arrays["labels of rows"], arrays["means"]
    class_means(kernels, means, arrays["class counts"], _kept(rows, labels, support.every_view))
    whole = mean_of_all(means, arrays["class counts"])
    for row, label in zip(rows, labels, strict=True):
        row -= whole if form == AROUND_ALL else means[label]
    return rows


def _kept(rows: np.ndarray, labels: np.ndarray, batches: Batches) -> Iterator[Batch]:
    """The batches, which are written to `rows` and `labels`."""
    first = 0
    for embeddings, given in batches():
        part = slice(first, first + len(given))
        rows[part], labels[part], first = embeddings, given, part.stop
        yield embeddings, given


def scatter_of(rows: np.ndarray) -> np.ndarray:
    """``rows^T rows`` (d, d) of rows (n, d), in float64 and without BLAS, as are `Few`'s sums."""
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


class Few:
    """Solves with ``scale * rows^T rows + ridge * I``, without that matrix, inside `gram` (n, n).

    `rows` (n, d) are read as long as this is used. The identity is that of Woodbury:
    ``S^-1 x = (x - rows^T G^-1 rows x) / ridge`` with ``G = rows rows^T + ridge / scale * I``.
    """

    def __init__(self, kernels, gram: np.ndarray, rows: np.ndarray, scale: float, ridge: float):
        self._kernels, self.rows, self.scale, self._gram = kernels, rows, scale, gram
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
        along = np.empty((1, len(self.rows)), x.dtype)
        for value in x:
            along[0] = [np.multiply(row, value, dtype=float).sum() for row in self.rows]
            self._kernels.cholesky_solve(along, self._gram)
            for row, factor in zip(self.rows, along[0], strict=True):
                value -= factor * row
            value /= self._ridge

    def degrees(self) -> float:
        """trace(S^-1 scale * rows^T rows), the degrees of freedom of the rows."""
        inverse = np.empty(len(self._gram), self.rows.dtype)
        self._kernels.inverse_diagonal(inverse, self._gram)
        return max(0.0, len(self._gram) - self._added * float(inverse.sum()))
