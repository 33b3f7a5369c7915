"""A symmetric matrix in either of two forms: (d, d) with its lower triangle in use, or that triangle packed.

Packed row by row, (d * (d + 1) / 2,), it takes half the bytes. Programs in int8 ask for that.
"""

import math
from dataclasses import replace

import numpy as np

from tinytrain.heads.head import HeadBuffer


class Triangle:
    """The kernels for one such `matrix`, of `size` rows, by its form."""

    def __init__(self, kernels, matrix: np.ndarray):
        self.matrix, self._kernels = matrix, kernels
        self._form = "" if matrix.ndim == 2 else "_packed"
        self.size = math.isqrt(2 * len(matrix)) if self._form else len(matrix)

    def _call(self, kernel: str, *arguments) -> None:
        getattr(self._kernels, kernel + self._form)(*arguments)

    def add_outer(self, rows: np.ndarray, scale) -> None:
        """Add scale * sum over rows (n, d) of row row^T."""
        self._call("add_outer", self.matrix, rows, self.matrix.dtype.type(scale))

    def scale(self, factor: float) -> None:
        np.multiply(self.matrix, self.matrix.dtype.type(factor), out=self.matrix)

    def trace(self) -> float:
        return float(self._diagonal().sum())

    def add_to_diagonal(self, value: float) -> None:
        value = self.matrix.dtype.type(value)
        if self._form:
            self.matrix[diagonal_places(self.size)] += value
        else:
            diagonal_of(self.matrix)[:] += value

    def factorize(self) -> None:
        """The matrix becomes its lower Cholesky factor."""
        self._call("cholesky", self.matrix)

    def solve(self, x: np.ndarray) -> None:
        """Replace each row of x (k, d) by A^-1 row, of the matrix A whose factor this is."""
        self._call("cholesky_solve", x, self.matrix)

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal (d,) of A^-1, of the matrix A whose factor this is."""
        found = np.empty(self.size, self.matrix.dtype)
        self._call("inverse_diagonal", found, self.matrix)
        return found

    def sum_of_squares(self) -> float:
        """In float64: of a factor that is the trace of its matrix."""
        # Row by row, so that what numpy takes for it is small.
        return sum(float(np.square(row, dtype=np.float64).sum()) for row in map(self._row, range(self.size)))

    def _row(self, i: int) -> np.ndarray:
        """Row i up to its diagonal."""
        start = i * (i + 1) // 2
        return self.matrix[start : start + i + 1] if self._form else self.matrix[i, : i + 1]

    def _diagonal(self) -> np.ndarray:
        return self.matrix[diagonal_places(self.size)] if self._form else diagonal_of(self.matrix)


def packed(factor: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Lower triangle of (d, d), row by row, as (d * (d + 1) / 2,), in `out` if that is given."""
    return np.concatenate([row[: i + 1] for i, row in enumerate(factor)], out=out)


def unpacked(values: np.ndarray) -> np.ndarray:
    """The (d, d) array whose lower triangle `packed` took; zero above the diagonal."""
    size = int((np.sqrt(8 * len(values) + 1) - 1) / 2)
    factor, start = np.zeros((size, size), values.dtype), 0
    for i, row in enumerate(factor):  # row by row: the indices of a triangle take four times its memory
        row[: i + 1] = values[start : start + i + 1]
        start += i + 1
    return factor


def diagonal_of(scatter: np.ndarray) -> np.ndarray:
    """The diagonal (d,) of (d, d), to be written to."""
    return scatter.reshape(-1)[:: len(scatter) + 1]


def diagonal_places(size: int) -> np.ndarray:
    """Where the diagonal of a packed triangle of `size` rows lies: (size,)."""
    rows = np.arange(size)
    return rows * (rows + 3) // 2


def packed_buffers(declared: tuple[HeadBuffer, ...], name: str) -> tuple[HeadBuffer, ...]:
    """`declared` with the square matrix `name`, if there is one, as its lower triangle."""
    return tuple(
        replace(b, shape=(b.shape[0] * (b.shape[0] + 1) // 2,)) if b.name == name else b for b in declared
    )
