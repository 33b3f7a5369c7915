"""What learns one example at a time, in its own bytes: a ridge regression, and running statistics.

The arithmetic has the dtype of its arrays, and the same bits on every processor. The inverse stays symmetric
to the last bit, because what is subtracted from it is the outer product of one vector with itself.
"""

import numpy as np

ROWS = 16  # of a matrix that are read or changed at a time, to need little more memory
LARGEST_LEVERAGE = 1 - 1e-4  # above it, float32 cannot tell any more what the other examples predict


def product(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """(m,) products of the rows of `matrix` (m, n), of any dtype, and `vector` (n,), in the dtype of that.

    Not by BLAS, which sums in an order that depends on the processor.
    """
    found = np.empty(len(matrix), vector.dtype)
    for first in range(0, len(matrix), ROWS):
        found[first : first + ROWS] = (matrix[first : first + ROWS] * vector).sum(axis=1)
    return found


def begin(inverse: np.ndarray, weights: np.ndarray, ridge: float) -> None:
    """`inverse` (n, n) and `weights` (m, n) before the first example."""
    inverse.fill(0)
    inverse.reshape(-1)[:: len(inverse) + 1] = 1 / ridge
    weights.fill(0)


def learn(inverse: np.ndarray, weights: np.ndarray, inputs: np.ndarray, target: np.ndarray) -> None:
    """Learn that `weights` (m, n) should map `inputs` (n,) to `target` (m,).

    They are those of the ridge regression on all examples. With h for `inputs` and P for `inverse`, k = P h /
    (1 + h P h), P <- P - k h P, W <- W + (t - W h) k (Tsukada, Kondo and Matsutani, "A neural network-based
    on-device learning anomaly detector for edge devices", IEEE Trans. Computers 69, 2020; no forgetting).
    """
    along = product(inverse, inputs)
    scale = 1 + float((inputs * along).sum())
    missing = target - product(weights, inputs)
    gain = (along / scale).astype(weights.dtype)
    for row, amount in zip(weights, missing, strict=True):
        row += amount * gain
    along /= np.sqrt(scale).astype(inverse.dtype)
    for first in range(0, len(inverse), ROWS):
        inverse[first : first + ROWS] -= along[first : first + ROWS, None] * along


def observe(statistics: np.ndarray, seen: int, x) -> None:
    """Add `x` (n,), number `seen` of a stream, to `statistics` (2, n): mean, sum of squares around it.

    Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics 4, 1962.
    """
    mean, squares = statistics
    away = x - mean
    mean += away / seen
    squares += away * (x - mean)


def leverage(inverse: np.ndarray, inputs: np.ndarray) -> float:
    """How much an example that was learnt pulls its own prediction, from 0 to below 1: h P h.

    Without it, the error of its prediction would be 1 / (1 - leverage) times as large.
    """
    return min(float((inputs * product(inverse, inputs)).sum()), LARGEST_LEVERAGE)
