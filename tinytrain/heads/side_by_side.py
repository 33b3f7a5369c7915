"""LDA of networks side by side, from the inner products of their embeddings.

Those of embeddings side by side are the sums of those of the parts, so each combination of networks costs a
sum and a system of equations. The rest follows by the identity of Woodbury, as in `scatter.Woodbury`.
"""

import numpy as np

from tinytrain.heads.lda import METHOD, ridge_of
from tinytrain.heads.scatter import LEAST_LEFT


class JointLda:
    """The head `lda` of the first n of m embeddings of `size` numbers, whose labels (n,) count from 0.

    `products` (m, m) float64 are the inner products of all; the last m - n are queries. Every class has an
    image. Embeddings need not have length 1: the parts of a committee have.
    """

    def __init__(self, products: np.ndarray, labels: np.ndarray, size: int):
        n, self._labels = len(labels), labels
        self._counts = np.bincount(labels).astype(float)
        self._means = (labels[:, None] == np.arange(len(self._counts))) / self._counts
        same = self._means[:, labels]
        deviations = products[:n, :n] - same @ products[:n, :n]
        deviations -= deviations @ same
        along = products[:, :n] - products[:, :n] @ same
        ridge = ridge_of(np.trace(deviations) / n, METHOD.shrinkage, size)
        self._scale = (1 - METHOD.shrinkage) / n
        added = ridge / self._scale
        deviations[np.diag_indices(n)] += added
        inverse = np.linalg.inv(deviations)
        self._excess = (n - added * np.trace(inverse)) / self._scale / n
        self._solved = (products - along @ inverse @ along.T) / ridge  # x^T S^-1 y of all pairs
        self._to_means = self._solved[:, :n] @ self._means
        self._between = self._means.T @ self._to_means[:n]

    def logits(self) -> np.ndarray:
        """Those of the queries (m - n, way)."""
        offsets = np.diag(self._between) - self._excess / self._counts
        return self._to_means[len(self._labels) :] - offsets / 2

    def left_out(self) -> np.ndarray:
        """Logits (n, way) of each support image by the head of all others; each class has two or more.

        As in `Lda.left_out` the covariance loses what the image adds to it, and nothing else changes.
        """
        own, n = self._labels, len(self._labels)
        at, counts = (np.arange(n), own), np.tile(self._counts, (n, 1))
        counts[at] -= 1
        images, squared = self._counts[own], np.diag(self._between)
        to_means, along = self._to_means[:n].copy(), self._to_means[:n] - self._between[own]
        length = np.diag(self._solved)[:n]
        to_itself = length - to_means[at]  # d is the deviation of an image x from the mean of its class
        deviation = to_itself - along[at]
        share = images / (images - 1) * self._scale
        gain = share / np.maximum(1 - share * deviation, LEAST_LEFT)
        lengths = np.tile(squared, (n, 1))
        lengths[at] += (deviation / (images - 1) - 2 * along[at]) / (images - 1)
        to_means[at] -= to_itself / (images - 1)
        along[at] -= deviation / (images - 1)
        to_means += gain[:, None] * along * to_itself[:, None]
        lengths += gain[:, None] * along**2
        return to_means - (lengths - self._excess / counts) / 2
