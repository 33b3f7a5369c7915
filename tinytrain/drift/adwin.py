"""ADWIN: the mean of the last values differs from that of those before, for some place to cut between them.

A. Bifet and R. Gavalda, "Learning from time-changing data with adaptive windowing", SDM 2007. The window is
kept as an exponential histogram: row i holds buckets of 2^i values, each as their sum and the sum of squared
deviations from their mean, so that n values take about 2 * MOST * log2(n) numbers. It never warns.
"""

import math
from typing import ClassVar

from tinytrain.base.schema import count, list_of, number
from tinytrain.drift.detector import DRIFT, STABLE, Detector, checked

MOST = 5  # buckets in a row; one more, and the two oldest become one of the next row
ROWS = 60  # beyond any stream: 2^60 values
SUM, SQUARES = number(-1e250, 1e250), number(0, 1e250)


def _bucket(value, where):
    total, squares = list_of(SUM, 2, 2)(value, where)
    return total, SQUARES(squares, f"{where}[1]")


class Adwin(Detector):
    """`confidence` is the probability of a false alarm at a test (the paper's delta).

    Every `clock`-th value is followed by a test, if there are more than `least` values. Neither part of a cut
    is shorter than `shortest`.
    """

    name = "adwin"
    CHECKS: ClassVar = {
        "confidence": number(1e-12, 1),
        "clock": count(1),
        "least": count(1),
        "shortest": count(1),
        "since": count(0, 10**15),
        "values": count(0, 10**15),
        "rows": list_of(list_of(_bucket, 0, MOST), 1, ROWS),
    }

    def __init__(self, confidence: float = 0.002, clock: int = 32, least: int = 10, shortest: int = 5):
        self.confidence, self.clock, self.least, self.shortest = confidence, clock, least, shortest
        self.since = 0
        self.reset()

    def reset(self) -> None:
        self.values = 0
        self.rows = [[]]  # the oldest bucket of a row comes first

    def update(self, value: float) -> str:
        self._insert(checked(value))
        self.values += 1
        if self.values % self.clock or self.values <= self.least:
            return STABLE
        dropped = False
        while self._cut():
            self._drop_oldest()
            dropped = True
        if not dropped:
            return STABLE
        self.since = self.width
        self.reset()
        return DRIFT

    @property
    def width(self) -> int:
        """Values in the window."""
        return sum(len(row) << i for i, row in enumerate(self.rows))

    def _insert(self, value: float) -> None:
        self.rows[0].append([value, 0.0])
        for i, row in enumerate(self.rows):
            if len(row) <= MOST:
                return
            if i + 1 == len(self.rows):
                self.rows.append([])
            older, newer = row.pop(0), row.pop(0)
            self.rows[i + 1].append(_merged(older, 1 << i, newer, 1 << i))

    def _drop_oldest(self) -> None:
        self.rows[-1].pop(0)
        while len(self.rows) > 1 and not self.rows[-1]:
            self.rows.pop()

    def _cut(self) -> bool:
        """Whether the means before and after some bucket differ by more than chance (their theorem 3.2)."""
        width, total, squares = 0, 0.0, 0.0
        for size, (u, v) in self._buckets():
            total, squares = _merged((total, squares), width, (u, v), size)
            width += size
        likely = math.log(2 * math.log(width) / self.confidence) if width > 1 else 0.0
        n0, u0 = 0, 0.0
        for size, (u, _) in self._buckets():
            n0, u0 = n0 + size, u0 + u
            n1 = width - n0
            if min(n0, n1) < self.shortest:
                continue
            m = 1 / (n0 - self.shortest + 1) + 1 / (n1 - self.shortest + 1)
            least = math.sqrt(2 * m * squares / width * likely) + 2 / 3 * likely * m
            if abs(u0 / n0 - (total - u0) / n1) > least:
                return True
        return False

    def _buckets(self):
        """(values in it, bucket), the oldest first."""
        for i in reversed(range(len(self.rows))):
            for bucket in self.rows[i]:
                yield 1 << i, bucket


def _merged(a, na: int, b, nb: int) -> list[float]:
    """Sum and sum of squared deviations of two buckets with `na` and `nb` values as one."""
    (ua, va), (ub, vb) = a, b
    if not na:
        return [ub, vb]
    return [ua + ub, va + vb + na * nb / (na + nb) * (ua / na - ub / nb) ** 2]
