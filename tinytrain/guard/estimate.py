"""How often the network that was kept is expected to be right on new images of its classes.

If images were held out, they say it. Otherwise every support image is classified by the nearest class mean
of the unadapted network, without the image itself: `leave_one_out.measure` found that before training.
Images that training has seen are never counted. The constants were chosen on domains that no figure of
`meta.studies.estimate` is about.
"""

import math
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

LEAST = 2  # images in every class: a single one cannot be judged without itself
LEVEL = 1.96  # standard errors: 95 % of a normal distribution
# Standard deviation between tasks of the adapted accuracy around the one left out, for an accuracy of 50 %,
# in units of the deviation of a single answer. It widens the interval as fewer images would.
BETWEEN_TASKS = 0.15
# An image left out is judged by a class of one image less, and without training. This fraction of errors,
# divided by the images left, would not happen.
ONE_LESS = 0.3
POWER = 0.6  # errors fall with the number of images to this power, about
# If labels are right, there are so many suspects for each other error. And no more labels are taken to be
# wrong than this fraction of right answers: if labels agree with nothing, most images are suspects.
HARD_IMAGES, MOST_WRONG = 0.5, 1 / 3


@dataclass(frozen=True)
class Estimate:
    """Expected accuracy with its 95 % interval `low` to `high`; all three are None if it is unknown.

    `method` is "held-out", "cross-validation" or "unknown". `network` is the one that was judged, "adapted"
    or "unadapted". `n` images were judged in `folds` (None if they were held out). `why` says why it is
    unknown and what would make it known.
    """

    accuracy: float | None
    low: float | None
    high: float | None
    method: str
    network: str
    n: int
    folds: int | None = None
    why: str | None = None

    def to_json(self) -> dict:
        return asdict(self)


class LeftOut(NamedTuple):
    """Support images classified without themselves.

    `judged` of them, `errors` (weighted, see ONE_LESS) beside those of `suspects`, which may be mislabelled.
    `short` is the smallest class as (name, images) if it has too few of them.
    """

    judged: int
    errors: float
    suspects: int
    short: tuple[str, int] | None

    @property
    def wrong_labels(self) -> float:
        """How many labels are probably wrong: suspects beyond those that hard images account for."""
        most = MOST_WRONG * (self.judged - self.errors - self.suspects)
        return min(max(0.0, self.suspects - HARD_IMAGES * self.errors), most)


def left_out(margins: np.ndarray, suspected, labels: np.ndarray, class_names: tuple[str, ...]) -> LeftOut:
    """What the `margins` (n,) of the images with `labels` (n,) say; those at `suspected` may be mislabelled.

    A margin above 0 is a right answer, NaN is the only image of a class.
    """
    counts = np.bincount(labels, minlength=len(class_names))
    wrong = ~(margins > 0) & ~np.isnan(margins)
    wrong[list(suspected)] = False
    errors = (1 - ONE_LESS / np.maximum(counts[labels[wrong]] - 1, 1)).sum()
    fewest = int(counts.argmin())
    short = (class_names[fewest], int(counts[fewest])) if counts[fewest] < LEAST else None
    return LeftOut(int((~np.isnan(margins)).sum()), float(errors), len(suspected), short)


def cross_validated(found: LeftOut) -> Estimate:
    """The estimate from support images, each judged by the unadapted network without itself."""
    if found.short is not None:
        name, count = found.short
        have = f"class {name!r} has {count} image{'s' if count > 1 else ''}"
        why = f"{have}; add more: with {LEAST} in every class it can be estimated, with 10 it can be measured"
        return Estimate(None, None, None, "unknown", "unadapted", 0, None, why)
    n, errors, suspects, wrong = found.judged, found.errors, found.suspects, found.wrong_labels
    # For the low end every suspect is an error, for the high end one that says nothing.
    low = interval(n - errors - suspects, n, BETWEEN_TASKS)[0]
    high = interval(n - errors - suspects, max(n - suspects, 1), BETWEEN_TASKS)[1]
    mid = (n - errors - suspects) / (n - wrong)
    return Estimate(mid, min(low, mid), max(high, mid), "cross-validation", "unadapted", n, n)


def held_out(right: int, n: int, adapted: bool, found: LeftOut) -> Estimate:
    """The estimate from `n` images that training did not see, of which the network that is kept got `right`.

    Their labels are taken to be wrong as often as those of the support, of which that `found` is known.
    """
    network = "adapted" if adapted else "unadapted"
    mislabelled = found.wrong_labels / max(found.judged, 1)
    low, high = interval(right, n)[0], interval(right, max(n * (1 - mislabelled), right))[1]
    mid = min(1.0, right / (n * (1 - mislabelled)))
    return Estimate(mid, min(low, mid), max(high, mid), "held-out", network, n)


def folded(right: int, n: int, folds: int, found: LeftOut) -> Estimate:
    """The estimate from adaptations to all but one of `folds` parts, which got `right` of `n` images."""
    errors = (n - right) * (1 - 1 / folds) ** POWER
    mislabelled = found.wrong_labels / found.judged
    low = interval(n - errors, n, BETWEEN_TASKS)[0]
    high = interval(n - errors, max(n * (1 - mislabelled), n - errors), BETWEEN_TASKS)[1]
    mid = min(1.0, (n - errors) / (n * (1 - mislabelled)))
    return Estimate(mid, min(low, mid), max(high, mid), "cross-validation", "adapted", n, folds)


def interval(right: float, n: float, between: float = 0.0) -> tuple[float, float]:
    """Wilson's 95 % interval of the probability of which `right` of `n` is a sample; at most 0 to 1.

    `between` is the standard deviation that comes on top, in units of that of a single answer.
    """
    fraction, n = right / n, 1 / (1 / n + between**2)
    scale = 1 + LEVEL**2 / n
    centre = (fraction + LEVEL**2 / (2 * n)) / scale
    half = LEVEL / scale * math.sqrt(fraction * (1 - fraction) / n + (LEVEL / (2 * n)) ** 2)
    return max(0.0, centre - half), min(1.0, centre + half)
