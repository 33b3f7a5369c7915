"""Cosine prototypes: a logit is the cosine of an embedding and the mean direction of a class. Imprinting."""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.heads.head import HeadMethod, Support, unit
from tinytrain.heads.linear import LinearHead, calibrated, class_means, linear_buffers, uncalibrated
from tinytrain.heads.moments import MOST
from tinytrain.kernels.rows import dot, multiply_rows


@dataclass(frozen=True, eq=False)
class CosineHead(LinearHead):
    """`means` (way, d) are those of the classes."""

    means: np.ndarray | None = None

    KEPT = ("weights", "offsets", "means")

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        """New embeddings weigh as much as old ones; rows of other classes keep every bit."""
        changed, places = np.unique(labels, return_inverse=True)
        sums = self.means[changed] * self.counts[changed, None].astype(np.float64)
        np.add.at(sums, places, embeddings)
        counts = self.counts[changed] + np.bincount(places, minlength=len(changed))
        self.counts[changed] = np.minimum(counts, MOST)  # a later image weighs as much as one of so many
        self.means[changed] = sums / counts[:, None]
        rows = self.means[changed]
        kernels.normalize_rows(rows)
        self.weights[changed] = rows

    def with_means(self, lengths: np.ndarray, means: np.ndarray) -> "CosineHead":
        """The head with its `means` (way, d) again, found up to rounding from their `lengths` (way,)."""
        multiply_rows(self.weights, lengths, out=means)
        return replace(self, means=means)


class Cosine(HeadMethod):
    name, head = "cosine", CosineHead
    separate_classes = limited = True

    def buffers(self, way: int, size: int):
        return linear_buffers(way, size)

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> CosineHead:
        class_means(kernels, arrays["means"], arrays["class counts"], support.every_view())
        return self.of_means(kernels, arrays, support)

    def of_means(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> CosineHead:
        """As `fit`, where `arrays` already have the class means and counts."""
        np.copyto(arrays["weights"], arrays["means"])
        arrays["offsets"].fill(0)
        kernels.normalize_rows(arrays["weights"])
        return calibrated(uncalibrated(self, arrays, support), arrays["means"], support, _own_logit)


def _own_logit(mean: np.ndarray, e: np.ndarray, images: float) -> float:
    return dot(mean, e) / np.sqrt(dot(mean, mean) + 1e-12)


def lengths_of(means: np.ndarray, out: np.ndarray) -> None:
    """Lengths (way,) of class `means` (way, d), as `normalize_rows` sees them."""
    squares = (np.square(mean, dtype=float).sum() for mean in means)
    out[:] = [np.sqrt(s + 1e-12) for s in squares]


@dataclass(frozen=True, eq=False)
class ImprintHead(CosineHead):
    """See `Imprint`."""

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        """As of any linear head, but class by class: the bits of one do not depend on how many there are."""
        x = unit(embeddings)
        return np.stack([x @ row for row in self.weights], axis=1) + self.offsets


class Imprint(Cosine):
    """Weight imprinting: the weights of a class are the mean of its unit embeddings, scaled to length 1.

    After Qi, Brown and Lowe, "Low-Shot Learning with Imprinted Weights", CVPR 2018, as in Coral's imprinting
    engine: a class can be added at any time, and the others keep the bits of their logits. The mean itself is
    kept with the weights, so that learning one by one is learning from all at once; with the engine, which
    scales after every image, the order would count.
    """

    name, head = "imprint", ImprintHead


METHOD, IMPRINT = Cosine(), Imprint()
