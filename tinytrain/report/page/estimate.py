"""The estimated accuracy of a report, and intervals of measured ones."""

import math
from dataclasses import dataclass

Z = 1.959964  # standard normal: 95 % lie within


@dataclass(frozen=True)
class Estimate:
    """How good the result is: the JSON key "estimate" as a value."""

    accuracy: float | None
    interval: tuple[float, float] | None
    method: str
    n: int
    folds: int | None
    why: str | None
    unadapted: bool


def estimate_of(facts: dict) -> Estimate:
    """The estimate in the report `facts`; from the held-out images if it has none."""
    given = facts.get("estimate")
    if given:
        ends = (given["low"], given["high"])
        return Estimate(
            given["accuracy"],
            None if None in ends else ends,
            given["method"],
            given["n"],
            given["folds"],
            given["why"],
            given["network"] == "unadapted",
        )
    after, n = facts["accuracy"]["after"], facts["accuracy"]["n_query"]
    if not n:
        return Estimate(None, None, "unknown", 0, None, None, False)
    return Estimate(after, wilson(after, n), "held-out", n, None, None, False)


def wilson(fraction: float, n: int) -> tuple[float, float]:
    """95 % interval by Wilson's score of a `fraction` of `n` independent images; inside 0 to 1.

    >>> [round(end, 3) for end in wilson(0.9, 10)], wilson(1.0, 20)[1]
    ([0.596, 0.982], 1.0)
    """
    middle = (fraction + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(fraction * (1 - fraction) / n + (Z / (2 * n)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)
