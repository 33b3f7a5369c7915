"""Has the stream of images changed? Without a label, from embeddings and the class means of a head.

Two numbers an image, each in standard deviations of the stream so far:
- how much farther it is from the nearest class mean than images of that class were (1 - cosine), and
- whether what class means do not explain of it points where that of the last images pointed. A change of
  light or camera moves every image alike, and so this one grows although each image hardly does.
Each number is summed up while it is above ALLOWANCE, as in a one-sided CUSUM (E. S. Page, "Continuous
inspection schemes", Biometrika 41, 1954); a sum above THRESHOLD is a drift. Many images of one class in a
row also have a direction in common. While the mix of classes is not the usual one, only the distance counts.

Constants were chosen on streams of domains that are no targets of the benchmarks, see `meta.studies.drift`.
"""

import numpy as np

from tinytrain.drift.detector import DRIFT, STABLE

WARMUP = 50  # images that set the level; none of them raises an alarm
ALLOWANCE, THRESHOLD = 0.75, 12.0
MOST = 3.0  # standard deviations that one image counts at most
DIRECTION = 0.1  # weight of the last image in the direction that images have in common
MIX = 0.1  # and in the mix of classes
UNUSUAL_MIX = 4.0  # standard deviations of chi-square
PRIOR = 3  # images of the whole stream that the level of a class starts with
LEAST_SPREAD = 1e-4  # of either number: less is rounding
SUM, IMAGES, SHARE = range(3)  # columns of `classes`


class UnlabelledDrift:
    """The detector for embeddings of `size` values. It holds two of these, and three numbers a class.

    After DRIFT it has begun afresh: the next WARMUP images are the new level. `since` is then the number of
    images, the last one included, that it takes to be from after the change.
    """

    def __init__(self, size: int):
        self.size, self.since = size, 0
        self.reset()

    def reset(self) -> None:
        """Forget every image."""
        self.images = 0
        self.level = 0.0  # mean distance
        self.distances, self.products = 0.0, 0.0  # mean squares of deviations and of products
        self.offset = np.zeros(self.size)  # mean of what class means leave of an embedding
        self.direction = np.zeros(self.size)  # of the last images
        self.classes = np.zeros((0, 3))  # sum of distances, images, share of the last images
        self.sums, self.lengths = [0.0, 0.0], [0, 0]

    def update(self, embedding: np.ndarray, centres: np.ndarray | None = None, label: int = 0) -> str:
        """STABLE or DRIFT after one more image.

        `embedding` (d,) is finite, of any length; `centres` (way, d) are means of embeddings of length 1, as
        the ``means`` of a linear head, and may get more rows from one image to the next. For a head that
        has no means, `label` is its answer, and the mean of the stream stands for those of classes: small
        changes are found later, and images of one class in a row are taken for a drift more often.
        """
        e = np.asarray(embedding, float)
        e = e / np.sqrt(e @ e + 1e-12)
        label, distance, rest = self._nearest(e, centres, label)
        numbers = self._distance(label, distance), self._product(rest)
        usual = self._usual_mix(label)
        self.images += 1
        if self.images <= WARMUP:
            return STABLE
        self._add(0, numbers[0])
        self._add(1, numbers[1] if usual else None)
        return self._verdict()

    def _nearest(self, e: np.ndarray, centres: np.ndarray | None, label: int) -> tuple:
        """The class, 1 - cosine to its mean, and what the mean leaves of `e`."""
        if centres is None:
            near, rest = self.offset if self.images else e, e
        else:
            label = int((centres @ e / np.sqrt((centres * centres).sum(axis=1) + 1e-12)).argmax())
            near, rest = centres[label], e - centres[label]
        missing = max(label + 1, 0 if centres is None else len(centres)) - len(self.classes)
        if missing > 0:
            self.classes = np.concatenate([self.classes, np.zeros((missing, 3))])
        return label, 1 - float(near @ e / np.sqrt(near @ near + 1e-12)), rest

    def _distance(self, label: int, distance: float) -> float:
        """The distance above the level of its class, in standard deviations."""
        if not self.images:
            self.level = distance
        mine = self.classes[label]
        above = distance - (mine[SUM] + PRIOR * self.level) / (mine[IMAGES] + PRIOR)
        found = above / max(np.sqrt(self.distances), LEAST_SPREAD)
        n = self.images + 1
        self.level += (distance - self.level) / n
        self.distances += (above * above - self.distances) / n
        mine[SUM] += distance
        mine[IMAGES] += 1
        return found

    def _product(self, rest: np.ndarray) -> float:
        """The product of `rest` and the direction of those before, in standard deviations."""
        rest = rest - self.offset
        product = float(rest @ self.direction)
        found = product / max(np.sqrt(self.products), LEAST_SPREAD**2)
        self.products += (product * product - self.products) / (self.images + 1)
        self.direction += DIRECTION * (rest - self.direction)
        self.offset += rest / (self.images + 2)
        return found

    def _usual_mix(self, label: int) -> bool:
        """Whether classes of the last images are as frequent as before, by chi-square."""
        way, share = len(self.classes), self.classes[:, SHARE]
        share *= 1 - MIX
        share[label] += MIX
        expected = (self.classes[:, IMAGES] + 1) / (self.classes[:, IMAGES].sum() + way)
        chi_square = float(((share - expected) ** 2 / expected).sum()) * (2 - MIX) / MIX
        return chi_square <= way - 1 + UNUSUAL_MIX * np.sqrt(2 * (way - 1))

    def _add(self, which: int, value: float | None) -> None:
        """One more number in one of the sums; None empties it."""
        step = -np.inf if value is None else min(MOST, max(-MOST, value)) - ALLOWANCE
        self.sums[which] = max(0.0, self.sums[which] + step)
        self.lengths[which] = self.lengths[which] + 1 if self.sums[which] else 0

    def _verdict(self) -> str:
        high = [length for g, length in zip(self.sums, self.lengths, strict=True) if g > THRESHOLD]
        if not high:
            return STABLE
        self.since = max(high)
        self.reset()
        return DRIFT
