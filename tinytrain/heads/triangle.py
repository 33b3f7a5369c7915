"""A symmetric matrix as its lower triangle, packed row by row: (d * (d + 1) / 2,), half the bytes."""

import math

import numpy as np


class Triangle:
    """The kernels for one such `matrix`, of `size` rows."""

    def __init__(self, kernels, matrix: np.ndarray):
        self.matrix, self._kernels = matrix, kernels
        self.size = math.isqrt(2 * len(matrix))

    def add_outer(self, rows: np.ndarray, scale) -> None:
        """Add scale * sum over rows (n, d) of row row^T."""
        self._kernels.add_outer_packed(self.matrix, rows, self.matrix.dtype.type(scale))

    def scale(self, factor: float) -> None:
        np.multiply(self.matrix, self.matrix.dtype.type(factor), out=self.matrix)

    def trace(self) -> float:
        return float(self.matrix[diagonal_places(self.size)].sum())

    def add_to_diagonal(self, value: float) -> None:
        self.matrix[diagonal_places(self.size)] += self.matrix.dtype.type(value)

    def factorize(self) -> None:
        """The matrix becomes its lower Cholesky factor."""
        self._kernels.cholesky_packed(self.matrix)

    def solve(self, x: np.ndarray) -> None:
        """Replace each row of x (k, d) by A^-1 row, of the matrix A whose factor this is."""
        self._kernels.cholesky_solve_packed(x, self.matrix)

    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal (d,) of A^-1, of the matrix A whose factor this is."""
        found = np.empty(self.size, self.matrix.dtype)
        self._kernels.inverse_diagonal_packed(found, self.matrix)
        return found


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
