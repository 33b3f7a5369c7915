"""Is an image of any class at all? The energy of its logits, against a limit that the support alone gives.

The energy is ``s * log(sum over k of exp(logit_k / s))``, a smooth maximum of the logits (Liu et al.,
"Energy-based Out-of-distribution Detection", NeurIPS 2020). The limit is below nine in ten support images,
each left out of its class. Training has seen these images, so that they fit better than new ones; how much
better was measured on domains that no benchmark is about (`meta.studies.strangers`), in units of the lead:
how far the logit of an image's own class is above the others in the mean.

If a class of the support is background, how far the largest logit is above that one counts instead. A new
image of the background is above the limit at a rate of TAKEN, by its images left out of it, as if these were
drawn from a normal distribution (`meta.studies.sounds`).
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SCALE = 0.2  # s, as a fraction of the lead
LOST = 0.1  # fraction of images of the classes that are expected below the limit
# What the limit is lowered by, as fractions of the lead: always, and at MOST_STEPS of training or more.
ALWAYS, TRAINED = 0.01, 0.15
MOST_STEPS = 40
# How far below the only image of their class nine in ten new ones are at most; and if there was no training,
# which draws images together.
SINGLE, SINGLE_UNTRAINED = 0.6, 0.7
NO_LEAD = 1e-4  # fraction of the largest logit: a smaller lead is rounding
TAKEN = 0.05  # fraction of images of the background that are expected above the limit
# The quantile 1 - TAKEN of Student's distribution: of the normal one, and what 1, 1/n, 1/n^2 degrees add.
STUDENT = 1.645, 1.524, 1.420, 0.984
UNSURE = 0.5  # a confidence below it is more likely wrong than right


class Limit(NamedTuple):
    """An image with an energy below `least` belongs to none of the classes; `scale`, above 0, is its `s`.

    With a label of the `background`, an image does that is not more than `least`, 0 or more, above it.
    """

    scale: float
    least: float
    background: int | None = None

    def admits(self, logits: np.ndarray) -> bool:
        """Whether logits (way,) are those of an image of the classes. Logits that are no numbers are not."""
        score = self.score(logits)
        return score > self.least if self.background is not None else score >= self.least

    def score(self, logits: np.ndarray) -> float:
        """What `least` is compared with."""
        return energy(logits, self.scale) if self.background is None else above(logits, self.background)

    def without(self, label: int) -> "Limit | None":
        """The limit of the classes without class `label`; None if that was the background."""
        if self.background is None or self.background < label:
            return self
        return None if self.background == label else self._replace(background=self.background - 1)


def above(logits: np.ndarray, background: int) -> float:
    """How far the largest logit of a class, of logits (way,), is above that of the background."""
    return float(np.delete(logits, background).max() - logits[background])


def energy(logits: np.ndarray, scale: float) -> float:
    """``scale * log(sum(exp(logits / scale)))`` of logits (way,), in float64; NaN if they overflow."""
    wide = logits.astype(np.float64)
    top = float(wide.max())
    if not math.isfinite(top):
        return math.nan
    return top + scale * math.log(float(np.exp((wide - top) / scale).sum()))


@dataclass
class LimitFinder:
    """Finds the limit for support images that are shown to it one by one, each left out of its class.

    `lead` is in units of logits; `typical` is the mean energy at the mean of each class, for supports with a
    single image per class. Of `count` energies to come it keeps the lowest tenth.
    """

    lead: float
    typical: float
    count: int

    def __post_init__(self):
        self.scale, self.lowest = SCALE * self.lead, []
        self.kept = int(LOST * max(0, self.count - 1)) + 2

    def add(self, logits: np.ndarray, label: int) -> None:
        """Logits (way,) of one image of class `label` by the head without it."""
        add = heapq.heappush if len(self.lowest) < self.kept else heapq.heappushpop
        add(self.lowest, -energy(logits, self.scale))  # the root is the highest that is kept

    def limit(self, steps: int) -> Limit | None:
        """The limit after so many `steps` of training on these images; None if it would be no number."""
        low = quantile(sorted(-e for e in self.lowest), self.count) if self.lowest else self.typical
        least = low - self.lead * margin(bool(self.lowest), steps)
        return Limit(self.scale, least) if math.isfinite(least) else None


class BackgroundFinder:
    """Finds the limit above the class `background` from its images, shown one by one, each left out of it."""

    def __init__(self, background: int):
        self.background, self.above = background, []

    def add(self, logits: np.ndarray, label: int) -> None:
        """Logits (way,) of one image of class `label` by the head without it."""
        if label == self.background:
            self.above.append(above(logits, label))

    def limit(self, steps: int) -> Limit | None:
        """The limit; of one image or none it is 0. None if it would be no number."""
        least, count = 0.0, len(self.above)
        if count > 1:
            students = sum(part / (count - 1) ** power for power, part in enumerate(STUDENT))
            least = np.mean(self.above) + students * np.std(self.above, ddof=1) * math.sqrt(1 + 1 / count)
        return Limit(1.0, max(0.0, float(least)), self.background) if math.isfinite(least) else None


def margin(left_out: bool, steps: int) -> float:
    """What the limit is lowered by, as a fraction of the lead; `left_out`: there are images left out."""
    if left_out:
        return ALWAYS + TRAINED * min(steps, MOST_STEPS) / MOST_STEPS
    return SINGLE if steps else SINGLE_UNTRAINED


def quantile(lowest: list[float], count: int) -> float:
    """The LOST quantile of `count` values of which these are the `lowest`, rising; between two, linearly."""
    place = LOST * (count - 1)
    i = min(int(place), len(lowest) - 1)
    return lowest[i] + (place - i) * (lowest[min(i + 1, len(lowest) - 1)] - lowest[i])


def finder_for(method, support, logits_of_mean) -> LimitFinder | BackgroundFinder | None:
    """What finds the limit of a head of `method` that is fitted to a `heads.head.Support`, if it has one."""
    if support.background is not None:
        return BackgroundFinder(support.background)
    return limit_finder(logits_of_mean, support.images) if method.limited else None


def limit_finder(logits_of_mean: Callable[[int], np.ndarray], images: np.ndarray) -> LimitFinder | None:
    """For a linear head that gives the logits (way,) to the mean of class k, of `images` (way,).

    A linear head has the same lead at the means as over all images. None if it cannot tell classes apart.
    """
    way, total = len(images), float(images.sum())
    lead = largest = 0.0
    for k, count in enumerate(images.tolist()):  # one after another: all together may be a large matrix
        logits = logits_of_mean(k).astype(np.float64)
        own = float(logits[k])
        lead += (own - (float(logits.sum()) - own) / max(way - 1, 1)) * count / total
        largest = max(largest, float(np.abs(logits).max()))
    if not lead > NO_LEAD * largest:  # NaN is no lead either
        return None
    typical = sum(energy(logits_of_mean(k), SCALE * lead) for k in range(way)) / way
    return LimitFinder(lead, typical, int(images[images > 1].sum()))
