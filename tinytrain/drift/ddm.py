"""DDM: the error rate of a classifier is clearly above the lowest one that it had.

J. Gama, P. Medas, G. Castillo and P. Rodrigues, "Learning with drift detection", SBIA 2004. The error rate p
of n values has the standard deviation s = sqrt(p (1 - p) / n); the lowest p + s is what later ones are
compared with.
"""

import math
from typing import ClassVar

from tinytrain.base.schema import count, number
from tinytrain.drift.detector import DRIFT, STABLE, WARNING, Detector, checked

NONE_YET = 2.0  # above every p + s


class Ddm(Detector):
    """Takes 1 for an error and 0 for a right answer.

    It warns at `warning` standard deviations above the lowest error rate, and `drift` are an alarm; neither
    comes in the first `least` values. If there was no error in these, the next error is an alarm.
    """

    name = "ddm"
    CHECKS: ClassVar = {
        "warning": number(0, 100),
        "drift": number(0, 100),
        "least": count(1),
        "since": count(0, 10**15),
        "values": count(0, 10**15),
        "p": number(0, 1),
        "lowest_p": number(0, NONE_YET),
        "lowest_s": number(0, 1),
        "warned": count(0, 10**15),
    }

    def __init__(self, warning: float = 2, drift: float = 3, least: int = 30):
        self.warning, self.drift, self.least = warning, drift, least
        self.since = 0
        self.reset()

    def reset(self) -> None:
        self.values, self.p = 0, 0.0
        self.lowest_p, self.lowest_s = NONE_YET, 0.0
        self.warned = 0  # values since it has been warning without a break

    def update(self, value: float) -> str:
        value = checked(value, 0, 1)
        self.values += 1
        self.p = min(1.0, max(0.0, self.p + (value - self.p) / self.values))
        if self.values <= self.least:
            return STABLE
        s = math.sqrt(self.p * (1 - self.p) / self.values)
        if self.p + s <= self.lowest_p + self.lowest_s:
            self.lowest_p, self.lowest_s = self.p, s
        above = self.p + s - self.lowest_p
        self.warned = self.warned + 1 if above > self.warning * self.lowest_s else 0
        if above > self.drift * self.lowest_s:
            self.since = max(1, self.warned)
            self.reset()
            return DRIFT
        return WARNING if self.warned else STABLE
