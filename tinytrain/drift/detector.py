"""CUSUM of log-likelihood ratios for the errors of a classifier: is the error rate still the one it was?

E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954; on errors of a classifier as in
Disabato and Roveri, arXiv:2107.14759. With p0 the error rate so far and p1 = p0 + RISE, the sum
g = max(0, g + log p1(error) / p0(error)) says how much likelier the last values are under p1.
"""

import math

STABLE, DRIFT = "stable", "drift"
RISE = 0.25  # of the error rate: the least one to be found soon
THRESHOLD = 7.5  # of the sum
LEAST = 30  # answers before any alarm
HIGHEST = 0.99  # of p1: a single right answer must not rule it out


class Cusum:
    """Takes answers one after another, wrong or not, in bounded memory.

    p0 is the rule of succession: two more answers, one of them wrong, count. After DRIFT it has begun afresh,
    and `since` is the number of answers, the last one included, that it takes to be from after the change.
    """

    def __init__(self):
        self.since = 0
        self._begin()

    def _begin(self) -> None:
        self.answers = self.errors = 0
        self.g, self.positive = 0.0, 0  # the sum, and for how many answers it has been above 0

    def update(self, wrong: bool) -> str:
        """STABLE or DRIFT after one more answer."""
        p0 = (self.errors + 1) / (self.answers + 2)
        p1 = max(p0, min(HIGHEST, p0 + RISE))
        ratio = math.log(p1 / p0) if wrong else math.log((1 - p1) / (1 - p0))
        self.answers, self.errors = self.answers + 1, self.errors + bool(wrong)
        self.g = max(0.0, self.g + ratio)
        self.positive = self.positive + 1 if self.g else 0
        if self.g <= THRESHOLD or self.answers <= LEAST:
            return STABLE
        self.since = self.positive
        self._begin()
        return DRIFT
