"""A symmetric matrix in either of two forms: (d, d) with its lower triangle in use, or that triangle packed.

Packed row by row, (d * (d + 1) / 2,), it takes half the bytes. Programs in int8 ask for that.
"""

import math
from dataclasses import replace

import numpy as np

from tinytrain.heads.head import HeadBuffer
from tinytrain.heads.scatter import diagonal_of


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

    def trace(self) -> float:
        return float(self._diagonal().sum())

    def add_to_diagonal(self, value: float) -> None:
        value = self.matrix.dtype.type(value)
        if self._form:
            self.matrix[_places(self.size)] += value
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
        return self.matrix[_places(self.size)] if self._form else diagonal_of(self.matrix)


def _places(size: int) -> np.ndarray:
    rows = np.arange(size)
    return rows * (rows + 3) // 2


def packed_buffers(declared: tuple[HeadBuffer, ...], name: str) -> tuple[HeadBuffer, ...]:
    """`declared` with the square matrix `name`, if there is one, as its lower triangle."""
    return tuple(
        replace(b, shape=(b.shape[0] * (b.shape[0] + 1) // 2,)) if b.name == name else b for b in declared
    )
