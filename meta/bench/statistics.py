"""Means with 95 % intervals from Student's t distribution, over episodes and over packs.

A mean over packs weighs every pack alike, and its interval is that of the episodes: the packs are the ones
named, not a sample of all possible ones. Degrees of freedom after Welch and Satterthwaite.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
STEPS = 20_000
MOST_FREEDOM = 2_000.0  # beyond it t and normal agree to three digits


class Interval(NamedTuple):
    """`mean` +- `half` (None with fewer than two values in a stratum) of `n` values; in JSON a list."""

    mean: float
    half: float | None
    n: int

    def text(self, digits: int = 1, signed: bool = False) -> str:
        """
        >>> Interval(81.04, 2.71, 60).text(), Interval(1.951, 0.57, 300).text(2, signed=True)
        ('81.0 ±2.7', '+1.95 ±0.57')
        """
        mean = f"{self.mean:{'+' if signed else ''}.{digits}f}"
        return mean if self.half is None else f"{mean} ±{self.half:.{digits}f}"

    def clear_of_zero(self) -> bool:
        return self.half is not None and abs(self.mean) > self.half


@lru_cache(maxsize=4096)
def t_quantile(freedom: float) -> float:
    """Half-width of the central LEVEL of Student's t, in standard errors.

    With t = sqrt(v) tan(a) the density is cos(a)^(v-1) on a bounded interval, integrated by trapezoids.

    >>> round(t_quantile(1), 3), round(t_quantile(9), 3), round(t_quantile(99), 3)
    (12.706, 2.262, 1.984)
    """
    freedom = min(freedom, MOST_FREEDOM)
    angle = np.linspace(0, math.pi / 2, STEPS)
    density = np.cos(angle) ** (freedom - 1)
    mass = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(freedom) * math.tan(float(np.interp(LEVEL * mass[-1], mass, angle)))


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of independent values and its interval. Raises ValueError without any."""
    return stratified([values])


def stratified(strata: Iterable[Sequence[float]]) -> Interval:
    """The mean of the means of `strata`, and its interval. Raises ValueError for an empty one."""
    found = [np.asarray(values, float) for values in strata]
    if not found or not all(map(len, found)):
        raise ValueError("an interval needs at least one value in every stratum")
    mean, n = float(np.mean([values.mean() for values in found])), sum(map(len, found))
    if min(map(len, found)) < 2:
        return Interval(mean, None, n)
    # Variances of the terms of the mean, one for each stratum.
    terms = [float(values.var(ddof=1)) / len(values) / len(found) ** 2 for values in found]
    variance = sum(terms)
    if variance == 0:
        return Interval(mean, 0.0, n)
    freedom = variance**2 / sum(t**2 / (len(v) - 1) for t, v in zip(terms, found, strict=True))
    return Interval(mean, t_quantile(round(freedom, 1)) * math.sqrt(variance), n)


def paired(a: Mapping[tuple, float], b: Mapping[tuple, float]) -> list[float]:
    """Differences ``a - b`` of the episodes that both have."""
    return [value - b[key] for key, value in a.items() if key in b]
