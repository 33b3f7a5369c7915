"""Each row of a matrix, multiplied or divided by a number or multiplied by a vector.

Numpy broadcasts a column through a buffer of up to 32 kB, which memory plans do not count.
"""

import numpy as np

AT_ONCE = 8  # rows whose products are in memory beside the result


def divide_rows(x: np.ndarray, divisors: np.ndarray, out: np.ndarray) -> None:
    """out (n, d) = x (n, d), row k divided by ``divisors[k]``."""
    for row, divisor, result in zip(x, divisors, out, strict=True):
        np.divide(row, divisor, out=result)


def multiply_rows(x: np.ndarray, factors: np.ndarray, out: np.ndarray) -> None:
    """out (n, d) = x (n, d), row k times ``factors[k]``."""
    for row, factor, result in zip(x, factors, out, strict=True):
        np.multiply(row, factor, out=result)


def dots(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Products (n,) of each row of x (n, d) with y (d,): in float64, as numpy adds.

    Not by BLAS, which adds in an order that depends on the processor.
    """
    result = np.empty(len(x), x.dtype)
    for k in range(0, len(x), AT_ONCE):
        result[k : k + AT_ONCE] = np.multiply(x[k : k + AT_ONCE], y, dtype=float).sum(axis=1)
    return result


def dot(x: np.ndarray, y: np.ndarray):
    """The product of x (d,) and y (d,), likewise."""
    return dots(x[None], y)[0]
