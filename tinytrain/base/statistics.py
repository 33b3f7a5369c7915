"""The interval of a fraction that was counted, and of the difference of two on the same images."""

from math import sqrt

import numpy as np

from tinytrain.base.random_streams import rng_for

NORMAL = 1.959964  # the 97.5 % quantile of the normal distribution
RESAMPLES = 10_000


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


def median(values: np.ndarray) -> float:
    """`np.median` of a vector, NaN if one of them is. Numpy's own takes a megabyte for numpy.ma."""
    ordered, n = np.sort(values), len(values)
    return float(np.nan if np.isnan(ordered[-1]) else ordered[[(n - 1) // 2, n // 2]].mean())


def paired_difference(before: np.ndarray, after: np.ndarray) -> list[float] | None:
    """[low, mid, high]: after - before in accuracy with its 95 % interval by paired bootstrap.

    An image's difference is -1, 0 or 1, so resampling images is drawing the counts of the three.
    """
    n = len(before)
    if not n:
        return None
    change = after.astype(int) - before.astype(int)
    shares = np.bincount(change + 1, minlength=3) / n
    drawn = rng_for(0, "paired bootstrap").multinomial(n, shares, size=RESAMPLES)
    low, high = np.quantile((drawn[:, 2] - drawn[:, 0]) / n, (0.025, 0.975))
    return [float(low), float(change.mean()), float(high)]
