"""The Page-Hinkley test: a mean that moved up or down, by sums of deviations from the running mean.

E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954; with the fading of sums that is usual for
streams. It never warns.
"""

from typing import ClassVar

from tinytrain.base.schema import count, number
from tinytrain.drift.detector import DRIFT, LARGEST, STABLE, Detector, checked

ANY = number(-1e300, 1e300)


class PageHinkley(Detector):
    """`delta` is the change per value that does not count, `threshold` the sum that is an alarm.

    Sums are multiplied by `fading` for each value; there is no alarm in the first `least` values but one.
    """

    name = "page-hinkley"
    CHECKS: ClassVar = {
        "delta": number(0, LARGEST),
        "threshold": number(0, LARGEST),
        "fading": number(0, 1),
        "least": count(1),
        "since": count(0, 10**15),
        "values": count(0, 10**15),
        **dict.fromkeys(("mean", "rise", "fall", "lowest", "highest"), ANY),
        "lowest_ago": count(0, 10**15),
        "highest_ago": count(0, 10**15),
    }

    def __init__(self, delta: float = 0.005, threshold: float = 50, fading: float = 0.9999, least: int = 30):
        self.delta, self.threshold, self.fading, self.least = delta, threshold, fading, least
        self.since = 0
        self.reset()

    def reset(self) -> None:
        self.values, self.mean = 0, 0.0
        self.rise = self.fall = self.lowest = self.highest = 0.0
        self.lowest_ago = self.highest_ago = 0  # values after the sums were lowest and highest

    def update(self, value: float) -> str:
        value = checked(value)
        self.values += 1
        self.mean += (value - self.mean) / self.values
        self.rise = self.fading * self.rise + value - self.mean - self.delta
        self.fall = self.fading * self.fall + value - self.mean + self.delta
        self.lowest_ago, self.highest_ago = self.lowest_ago + 1, self.highest_ago + 1
        if self.rise < self.lowest:
            self.lowest, self.lowest_ago = self.rise, 0
        if self.fall > self.highest:
            self.highest, self.highest_ago = self.fall, 0
        if self.values < self.least:
            return STABLE
        rose = self.rise - self.lowest > self.threshold
        if not rose and not self.highest - self.fall > self.threshold:
            return STABLE
        self.since = self.lowest_ago if rose else self.highest_ago
        self.reset()
        return DRIFT
