"""Multiply or divide each row of a matrix by a number, without further memory.

Numpy broadcasts a column through a buffer of up to 32 kB, which memory plans do not count.
"""

import numpy as np


def divide_rows(x: np.ndarray, divisors: np.ndarray, out: np.ndarray) -> None:
    """out (n, d) = x (n, d), row k divided by ``divisors[k]``."""
    for row, divisor, result in zip(x, divisors, out, strict=True):
        np.divide(row, divisor, out=result)


def multiply_rows(x: np.ndarray, factors: np.ndarray, out: np.ndarray) -> None:
    """out (n, d) = x (n, d), row k times ``factors[k]``."""
    for row, factor, result in zip(x, factors, out, strict=True):
        np.multiply(row, factor, out=result)
