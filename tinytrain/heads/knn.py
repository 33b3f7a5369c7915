"""Condensing nearest neighbours: a class is a few prototypes, and an image only adds one if it is mistaken.

An image that the prototypes so far take for another class becomes a prototype (Hart, "The condensed nearest
neighbor rule", IEEE Transactions on Information Theory 14, 1968), in `fit` several times over, and in
operation once for every image with a label (Disabato and Roveri, "Tiny Machine Learning for Concept Drift",
2021). A class has at most CAP of them; if it needs one more, its oldest one gives way.

Two things are added to the rule, because with it alone the head stays 8 points behind LDA: an image that is
recognised moves the prototype of its class that is closest to it, which is the mean of what it stands for
(`merges`), and distances are those of Mahalanobis, by the covariance within classes (`metric`). It is shrunk
as if IDENTITY images more for each value of an embedding had shown the identity, and stays as `fit` found it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinytrain.heads.calibration import calibrated
from tinytrain.heads.head import ANSWERING, FITTING, Head, HeadBuffer, HeadMethod, Support, unit
from tinytrain.heads.out_of_distribution import finder_for
from tinytrain.heads.scatter import gain_without, scatter_around, share_of_image
from tinytrain.heads.scatter_head import SCATTER
from tinytrain.heads.triangle import diagonal_of, diagonal_places, packed

CAP = 16  # prototypes of a class
WHITENED_AT_A_TIME = 16  # embeddings, to need little memory outside the arena
IDENTITY = 0.25  # so many images for each value of an embedding show the identity as covariance
LEAST_TRACE = 0.01  # of the covariance: images that are all alike say nothing about distances


@dataclass(frozen=True, eq=False)
class KnnHead(Head):
    """`prototypes` (way, CAP, d), whitened, the oldest of a class first, with `counts` (way, CAP) of images.

    A count of 0 is a free place; those behind it are free, too. `factor` (d * (d + 1) / 2,) is the packed
    lower Cholesky factor of the covariance. The logit of a class is 1 minus half the squared distance to its
    closest prototype: without a metric, their cosine.
    """

    prototypes: np.ndarray
    counts: np.ndarray
    factor: np.ndarray

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        return np.stack([self._logits(w) for w in whitened(unit(embeddings), self.factor)])

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        for e, label in zip(embeddings, labels.tolist(), strict=True):
            self.learn(next(whitened(e[None], self.factor)), label, self.method.merges)

    def learn(self, w: np.ndarray, label: int, merges: bool) -> bool:
        """Learn from a whitened embedding (d,); whether it became a prototype."""
        counts, prototypes = self.counts[label], self.prototypes[label]
        used = int(np.count_nonzero(counts))
        if used and int(self._logits(w).argmax()) == label:
            if merges:
                closest = int(_squared(prototypes[:used], w).argmin())
                counts[closest] += 1
                prototypes[closest] += (w - prototypes[closest]) / counts[closest]
            return False
        if used == CAP:
            prototypes[:-1], counts[:-1] = prototypes[1:].copy(), counts[1:].copy()
            used -= 1
        prototypes[used], counts[used] = w, 1
        return True

    def problem(self) -> str | None:
        free = self.counts == 0
        if self.counts.min() < 0 or free[:, 0].any() or (free[:, :-1] & ~free[:, 1:]).any():
            return "head.counts must be above 0 for every class, from its first prototype on"
        indefinite = self.factor[diagonal_places(self.embedding_size)].min() <= 0
        return "the diagonal of head.factor must be above 0" if indefinite else None

    def without(self, w: np.ndarray, label: int, share: float = 0.0) -> np.ndarray:
        """Logits (way,) for a whitened embedding (d,) of class `label` that is taken out of its prototype.

        Its deviation from the mean of its class is in the covariance with this `share`, and is taken out of
        that, too.
        """
        deviation, found = w - self._mean(label), np.full(len(self.counts), -np.inf, np.float32)
        gain = gain_without(share, float(deviation @ deviation))
        for k, counts in enumerate(self.counts):
            used = int(np.count_nonzero(counts))
            if not used:
                continue
            prototypes = self.prototypes[k, :used]
            distances = _squared(prototypes, w) + gain * np.square(prototypes @ deviation - w @ deviation)
            if k == label:
                closest = int(distances.argmin())
                # The mean of the others is farther by count / (count - 1); without others there is no mean.
                if counts[closest] > 1:
                    distances[closest] *= (counts[closest] / (counts[closest] - 1)) ** 2
                elif used > 1:
                    distances[closest] = np.inf
            found[k] = 1 - 0.5 * distances.min()
        return found

    def _mean(self, label: int) -> np.ndarray:
        """The mean (d,) of the prototypes of a class, each weighed by its images."""
        counts = self.counts[label].astype(np.float32)
        return counts @ self.prototypes[label] / counts.sum()

    def logits_of_mean(self, label: int) -> np.ndarray:
        """Logits (way,) of the mean of the prototypes of a class."""
        return self._logits(self._mean(label))

    def _logits(self, w: np.ndarray) -> np.ndarray:
        """(way,) logits of a whitened embedding (d,); a class without prototypes is farther than any."""
        found = np.full(len(self.counts), -np.inf, np.float32)
        for k, counts in enumerate(self.counts):
            if used := int(np.count_nonzero(counts)):
                found[k] = 1 - 0.5 * _squared(self.prototypes[k, :used], w).min()
        known = np.isfinite(found)
        found[~known] = 2 * found[known].min() - 1 if known.any() else 1
        return found


class Knn(HeadMethod):
    """`merges` and `metric` are the additions to Hart's rule; without them it is the rule alone."""

    name, head = "knn", KnnHead
    sized_by = "prototypes"
    limited = True
    passes = 3  # for the covariance, and two to learn: seldom is an image mistaken after the first one
    merges = metric = True

    def buffers(self, way: int, size: int):
        return (
            HeadBuffer("prototypes", (way, CAP, size), ANSWERING),
            HeadBuffer("counts", (way, CAP), ANSWERING, "int32"),
            HeadBuffer("factor", (size * (size + 1) // 2,), ANSWERING),
            HeadBuffer("means of classes", (way, size), FITTING),
            HeadBuffer("images of classes", (way,), FITTING),
            HeadBuffer(SCATTER, (size, size), FITTING),
        )

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> KnnHead:
        _whitening(kernels, arrays, support, self.metric)
        arrays["prototypes"].fill(0)
        arrays["counts"].fill(0)
        head = KnnHead(self, arrays["prototypes"], arrays["counts"], arrays["factor"])
        prototypes: set[int] = set()
        for number in range(1, self.passes):
            self._learn(head, support, prototypes, self.merges and number == 1)
        return _calibrated(head, support)

    def _learn(self, head: KnnHead, support: Support, prototypes: set[int], merges: bool) -> None:
        """Show all images but those that became `prototypes`, to which new ones are added."""
        place = 0
        for embeddings, labels in support.clean():
            for w, label in zip(whitened(embeddings, head.factor), labels.tolist(), strict=True):
                if place not in prototypes and head.learn(w, label, merges):
                    prototypes.add(place)
                place += 1


def _calibrated(head: KnnHead, support: Support) -> KnnHead:
    found, images = finder_for(head.method, support, head.logits_of_mean), support.images.tolist()
    total = (sum(images) + IDENTITY * head.embedding_size) if head.method.metric else math.inf

    def leave_out(logits, e, label):
        w = next(whitened(e[None], head.factor))
        logits[label] = head.without(w, label)[label]
        if found:
            found.add(head.without(w, label, share_of_image(images[label], total)), label)

    return calibrated(head, support, leave_out, finder=found)


def _whitening(kernels, arrays: dict[str, np.ndarray], support: Support, metric: bool) -> None:
    """The packed factor of the shrunk covariance within classes, or of the identity without a `metric`."""
    scatter, factor, n = arrays[SCATTER], arrays["factor"], int(support.images.sum())
    diagonal = diagonal_of(scatter)
    if metric:
        means, counts = arrays["means of classes"], arrays["images of classes"]
        scatter_around(kernels, scatter, means, counts, support.clean)
        shown = IDENTITY * len(scatter)
        variance = max(float(diagonal.sum()) / n, LEAST_TRACE) / len(scatter)
        scatter /= np.float32(n + shown)
        diagonal += np.float32(variance * shown / (n + shown))
        kernels.cholesky(scatter)
    else:
        scatter.fill(0)
        diagonal.fill(1)
    packed(scatter, factor)


def whitened(embeddings: np.ndarray, factor: np.ndarray) -> Iterator[np.ndarray]:
    """Each of `embeddings` (n, d) times the inverse of the packed Cholesky `factor`: (d,), one by one.

    Not by BLAS, which adds in an order that depends on the processor.
    """
    for first in range(0, len(embeddings), WHITENED_AT_A_TIME):
        solved, start = embeddings[first : first + WHITENED_AT_A_TIME].T.copy(), 0
        for i, row in enumerate(solved):
            row -= (factor[start : start + i, None] * solved[:i]).sum(axis=0)
            row /= factor[start + i]
            start += i + 1
        yield from solved.T


def _squared(prototypes: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Squared distances (n,) of `w` (d,) to `prototypes` (n, d)."""
    return np.square(prototypes - w).sum(axis=1)


METHOD = Knn()
