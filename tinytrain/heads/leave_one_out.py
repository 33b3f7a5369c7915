"""How well each support image fits its class, judged without it: what the guard sees of the images.

Similarities are cosines of embeddings of length 1. The mean of the whole support is subtracted first, except
for NEAR: what all images have in common says nothing about their classes.
"""

import numpy as np

from tinytrain.kernels.rows import dot, dots

OWN, OTHER, LIKE, NEAR, CHANCE = range(5)  # columns of a row
COLUMNS = 5
TINY = np.float32(1e-6)


def measure(rows, embeddings, labels, means, images, centred, background: int | None = None) -> None:
    """Write a row for each of some images: (n, 5) float32.

    OWN: similarity to the class it was given, without the image itself; nan if its class has no other one, if
    there is no other class, or of the class `background`, whose images differ. OTHER: similarity to
    the closest other class, -inf if there is none. LIKE: which class that is. NEAR: OWN without the mean
    subtracted. CHANCE: mean square of its similarities to the other images given, nan for a single one.
    `embeddings` (n, d) have length 1, `means` (way, d) are class means of such embeddings over
    `images` (way,) images each, these among them. `centred` (way, d) is overwritten.
    """
    centre = np.zeros_like(means[0])
    for mean, count in zip(means, images, strict=True):
        centre += mean * count
    centre /= images.sum()
    lengths = np.empty(len(means), means.dtype)
    for k, (mean, row) in enumerate(zip(means, centred, strict=True)):  # all at once take as much as `means`
        np.subtract(mean, centre, out=row)
        lengths[k] = _norm(row)
    along, square, level = dots(embeddings, centre), dot(centre, centre), dots(centred, centre)
    own_lengths = np.sqrt(np.maximum(1 - 2 * along + square, TINY))
    for i, (row, e, label) in enumerate(zip(rows, embeddings, labels, strict=True)):
        pairs = (dots(embeddings, e) - along - along[i] + square) / (own_lengths * own_lengths[i])
        squares = dot(pairs, pairs) - pairs[i] * pairs[i]
        row[CHANCE] = squares / (len(pairs) - 1) if len(pairs) > 1 else np.nan
        similar = (dots(centred, e) - level) / (lengths * own_lengths[i])
        similar[label] = -np.inf
        row[LIKE] = similar.argmax()
        row[OTHER] = similar[int(row[LIKE])]
        count = images[label]
        if count < 2 or label == background:
            row[OWN] = row[NEAR] = np.nan
            continue
        others = (means[label] * count - e) / (count - 1)
        row[OWN] = _cosine(e - centre, others - centre) if len(means) > 1 else np.nan
        row[NEAR] = _cosine(e, others)


def margins(rows: np.ndarray) -> np.ndarray:
    """(n,): how much closer each image is to its class than to any other; NaN if it is the only one of it."""
    return rows[:, OWN] - rows[:, OTHER]


def recognised(rows: np.ndarray) -> np.ndarray:
    """(n,): 1 for an image that is closer to its class than to any other, else 0; nan if that is unknown."""
    found = margins(rows)
    return np.where(np.isnan(found), np.nan, found > 0)


def macs(n: int, batch: int, way: int, size: int) -> int:
    """Multiply-accumulates to `measure` `n` embeddings of `size` numbers, `batch` at a time: dot products."""
    return (n * (batch + 2 * way + 7) + 2 * way * -(-n // batch)) * size


def _norm(x: np.ndarray):
    return np.sqrt(np.maximum(dot(x, x), TINY))


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(dot(a, b) / (_norm(a) * _norm(b)))
