"""How often the network that was kept is expected to be right on new images of its classes.

If images were held out, they say it. Otherwise every support image is classified by the nearest class mean
of the unadapted network, without the image itself: `leave_one_out.measure` found that before training.
Images that training has seen are never counted. The constants were chosen on domains that no figure of
`meta.studies.estimate` is about.
"""

from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from tinytrain.base.statistics import wilson_interval
from tinytrain.heads.repeats import Repeats

LEAST = 2  # images in every class: a single one cannot be judged without itself
# Standard deviation between tasks of the accuracy around the one found, in units of the deviation of a single
# answer. It widens the interval as fewer images would.
BETWEEN_TASKS = 0.1
# An image left out is judged by a class of one image less. This fraction of errors, divided by the images
# that are left, would not happen otherwise.
ONE_LESS = 0.3
KEPT = 0.6  # of the errors of the unadapted network, at least: training may mend the others
POWER = 0.6  # errors fall with the number of images to this power, about
# If labels are right, there is about one suspect, and so many more for each other error. And no more labels
# are taken to be wrong than this fraction of right answers: most images are suspects if no label is right.
ONE_SUSPECT, HARD_IMAGES, MOST_WRONG = 1, 0.3, 1 / 3


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
    """Support images classified without themselves; copies that heads do not see are none of them.

    `judged` of them, `errors` (weighted, see ONE_LESS) beside those of `suspects`, which may be mislabelled.
    `short` is the smallest class as (name, images, copies) if it has too few of them. `repeated` is the
    fraction that were right only because others nearly repeat them; new images are not repeated. Copies
    `feigned` a part of it, which is not in what is judged.
    """

    judged: int
    errors: float
    suspects: int
    short: tuple[str, int, int] | None = None
    repeated: float = 0.0
    feigned: float = 0.0

    @property
    def wrong_labels(self) -> float:
        """Fraction of labels that are probably wrong: suspects beyond those that hard images account for."""
        right = self.judged - self.errors - self.suspects
        wrong = max(0.0, self.suspects - ONE_SUSPECT - HARD_IMAGES * self.errors)
        return min(wrong, MOST_WRONG * right) / max(self.judged, 1)


def left_out(
    margins: np.ndarray,
    suspected,
    labels: np.ndarray,
    class_names: tuple[str, ...],
    repeats: Repeats | None = None,
) -> LeftOut:
    """What the `margins` (n,) of the images with `labels` (n,) say; those at `suspected` may be mislabelled.

    A margin above 0 is a right answer, NaN is the only image of a class.
    """
    copies, feigned, repeated = repeats or Repeats(np.zeros(len(labels), bool))
    counts = np.bincount(labels[~copies], minlength=len(class_names))
    judged = ~np.isnan(margins) & ~copies
    wrong = judged & ~(margins > 0)
    wrong[list(suspected)] = False
    errors = (1 - ONE_LESS / np.maximum(counts[labels[wrong]] - 1, 1)).sum()
    fewest = int(counts.argmin())
    few = class_names[fewest], int(counts[fewest]), int(np.count_nonzero(copies[labels == fewest]))
    suspects = int(np.count_nonzero(~copies[list(suspected)]))
    short = few if counts[fewest] < LEAST else None
    return LeftOut(int(judged.sum()), float(errors), suspects, short, repeated, feigned)


def cross_validated(found: LeftOut) -> Estimate:
    """The estimate from support images, each judged by the unadapted network without itself."""
    if found.short is not None:
        name, count, copies = found.short
        nearly = f" and {copies} that nearly repeat it" if copies else ""
        have = f"class {name!r} has {count} image{'s' if count > 1 else ''}{nearly}"
        why = f"{have}; add more: with {LEAST} in every class it can be estimated, with 10 it can be measured"
        return Estimate(None, None, None, "unknown", "unadapted", 0, None, why)
    n, wrong = found.judged, found.errors + found.suspects
    right = max(0.0, n - wrong - (found.repeated - found.feigned) * n)
    low = wilson_interval(right, n, BETWEEN_TASKS)[0]
    known = max(
        n - found.suspects, 1
    )  # for the high end suspects say nothing, for the low one they are errors
    high = wilson_interval(known - KEPT * found.errors, known, BETWEEN_TASKS)[1]
    accuracy = right / n / (1 - found.wrong_labels)
    return _estimate(low, accuracy, high, "cross-validation", "unadapted", n, n)


def held_out(right: int, n: int, adapted: bool, found: LeftOut) -> Estimate:
    """The estimate from `n` images that training did not see, of which the network that is kept got `right`.

    Images are taken to repeat those of the support as often as `found` has it inside the support, and for the
    high end labels to be wrong as often.
    """
    known, network = max(n * (1 - found.wrong_labels), right), "adapted" if adapted else "unadapted"
    new = _new(right, n, found)
    return _estimate(
        wilson_interval(new, n)[0], new / n, wilson_interval(right, known)[1], "held-out", network, n
    )


def folded(right: int, n: int, folds: int, found: LeftOut) -> Estimate:
    """The estimate from adaptations to all but one of `folds` parts, which got `right` of `n` images."""
    fewer = n - (n - right) * (1 - 1 / folds) ** POWER
    known, new = max(n * (1 - found.wrong_labels), fewer), _new(fewer, n, found)
    low, high = wilson_interval(new, n, BETWEEN_TASKS)[0], wilson_interval(fewer, known, BETWEEN_TASKS)[1]
    return _estimate(low, new / n, high, "cross-validation", "adapted", n, folds)


def _new(right: float, n: int, found: LeftOut) -> float:
    """How many of `n` images would be right, of which `right` are, if no others repeated them."""
    return max(0.0, right - found.repeated * n)


def _estimate(low: float, accuracy: float, high: float, *how) -> Estimate:
    accuracy = min(1.0, accuracy)
    return Estimate(accuracy, min(low, accuracy), max(high, accuracy), *how)
