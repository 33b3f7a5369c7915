"""Is an image of any class at all? The energy of its logits, against a limit that the support alone gives.

The energy is ``s * log(sum over k of exp(logit_k / s))``, a smooth maximum of the logits (Liu et al.,
"Energy-based Out-of-distribution Detection", NeurIPS 2020). The limit is below nine in ten support images,
each left out of its class. Training has seen these images, so that they fit better than new ones; how much
better was measured on domains that no benchmark is about (`meta.studies.strangers`), in units of the lead:
how far the logit of an image's own class is above the others in the mean.
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
UNSURE = 0.5  # a confidence below it is more likely wrong than right


class Limit(NamedTuple):
    """An image with an energy below `least` belongs to none of the classes; `scale`, above 0, is its `s`."""

    scale: float
    least: float

    def admits(self, logits: np.ndarray) -> bool:
        """Whether logits (way,) are those of an image of the classes. Logits that are no numbers are not."""
        return energy(logits, self.scale) >= self.least


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

    def add(self, logits: np.ndarray) -> None:
        """Logits (way,) of one image by the head without it."""
        add = heapq.heappush if len(self.lowest) < self.kept else heapq.heappushpop
        add(self.lowest, -energy(logits, self.scale))  # the root is the highest that is kept

    def limit(self, steps: int) -> Limit | None:
        """The limit after so many `steps` of training on these images; None if it would be no number."""
        low = quantile(sorted(-e for e in self.lowest), self.count) if self.lowest else self.typical
        least = low - self.lead * margin(bool(self.lowest), steps)
        return Limit(self.scale, least) if math.isfinite(least) else None


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
