"""The interval of a fraction that was counted."""

from math import sqrt

NORMAL = 1.959964  # the 97.5 % quantile of the normal distribution


def wilson_interval(hits: float, n: float, between: float = 0.0) -> tuple[float, float]:
    """Wilson's 95 % interval (low, high) of a probability, from `hits` of `n` trials; (0, 1) for n = 0.

    `between` is a standard deviation that comes on top, in units of that of a single trial: trials that are
    not independent, or a fraction that differs between tasks. It widens the interval as fewer trials would.

    >>> [round(end, 3) for end in wilson_interval(45, 48)]
    [0.832, 0.979]
    """
    if n == 0:
        return 0.0, 1.0
    fraction = hits / n
    square = NORMAL**2 * (1 / n + between**2)
    middle = (fraction + square / 2) / (1 + square)
    half = sqrt(fraction * (1 - fraction) * square + square**2 / 4) / (1 + square)
    # Rounding must not leave the fraction itself outside.
    return max(0.0, min(fraction, middle - half)), min(1.0, max(fraction, middle + half))
