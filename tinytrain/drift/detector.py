"""CUSUM of log-likelihood ratios for the errors of a classifier: is the error rate still the one it was?

E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954; on errors of a classifier as in
Disabato and Roveri, arXiv:2107.14759. With p0 the error rate so far and p1 = p0 + rise, the sum
g = max(0, g + log p1(error) / p0(error)) says how much likelier the last values are under p1.
"""

import math

from tinytrain.base.errors import InputError

STABLE, DRIFT = "stable", "drift"
HIGHEST = 0.99  # of p1: a single right answer must not rule it out


class Cusum:
    """Takes 1 for an error and 0 for a right answer, in bounded memory.

    `rise` is the increase of the error rate to find. The alarm comes at a sum of `threshold`, but not in the
    first `least` values. The error rate before the stream counts as if `prior` had been seen in two values.
    After DRIFT it has begun afresh, and `since` is the number of values, the last one included, that it takes
    to be from after the change.
    """

    def __init__(self, rise: float = 0.25, threshold: float = 7.5, prior: float = 0.5, least: int = 30):
        self.rise, self.threshold, self.prior, self.least = rise, threshold, prior, least
        self.since = 0
        self.reset()

    def reset(self) -> None:
        """Forget every value; the settings stay."""
        self.values, self.error_rate = 0, 0.0
        self.g, self.positive = 0.0, 0  # the sum, and for how many values it has been above 0

    def update(self, value: float) -> str:
        """STABLE or DRIFT after one more value. Raises InputError ``bad-value``."""
        value = float(value)
        if not 0 <= value <= 1:
            raise InputError(
                "bad-value", f"a drift detector was given {value:g}; it takes numbers from 0 to 1"
            )
        p0 = (self.error_rate * self.values + 2 * self.prior) / (self.values + 2)
        p1 = max(p0, min(HIGHEST, p0 + self.rise))
        ratio = value * math.log(p1 / p0) + (1 - value) * math.log((1 - p1) / (1 - p0))
        self.values += 1
        self.error_rate = min(1.0, max(0.0, self.error_rate + (value - self.error_rate) / self.values))
        self.g = max(0.0, self.g + ratio)
        self.positive = self.positive + 1 if self.g else 0
        if self.g <= self.threshold or self.values <= self.least:
            return STABLE
        self.since = self.positive
        self.reset()
        return DRIFT
