"""Each row of a matrix, multiplied or divided by a number or multiplied by a vector.

Numpy broadcasts a column through a buffer of up to 32 kB, which memory plans do not count. Products by BLAS
have other last bits on other processors.
"""

import numpy as np

from tinytrain.kernels.compile_cache.facts import portable

PORTABLE = portable()


def divide_rows(x: np.ndarray, divisors: np.ndarray, out: np.ndarray) -> None:
    """out (n, d) = x (n, d), row k divided by ``divisors[k]``."""
    for row, divisor, result in zip(x, divisors, out, strict=True):
        np.divide(row, divisor, out=result)


def multiply_rows(x: np.ndarray, factors: np.ndarray, out: np.ndarray) -> None:
    """out (n, d) = x (n, d), row k times ``factors[k]``."""
    for row, factor, result in zip(x, factors, out, strict=True):
        np.multiply(row, factor, out=result)


def dots(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Products (n,) of each row of x (n, d) with y (d,). Portable: in float64, as numpy adds."""
    if not PORTABLE:
        return x @ y
    return np.array([np.multiply(row, y, dtype=float).sum() for row in x]).astype(x.dtype)


def dot(x: np.ndarray, y: np.ndarray):
    """The product of x (d,) and y (d,), likewise."""
    return dots(x[None], y)[0]
