"""The interval of a fraction that was counted."""

from math import sqrt

NORMAL = 1.959964  # the 97.5 % quantile of the normal distribution


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval (low, high) of a fraction of which `hits` of `n` trials are seen; (0, 1) for n = 0.

    >>> [round(end, 3) for end in wilson_interval(45, 48)]
    [0.832, 0.979]
    """
    if n == 0:
        return 0.0, 1.0
    square = NORMAL**2 / n
    middle = (hits / n + square / 2) / (1 + square)
    half = sqrt(hits / n * (1 - hits / n) * square + square**2 / 4) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)
