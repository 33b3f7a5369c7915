"""What more images per class would bring, from the errors with fewer of them.

Errors fall with images as a power of their number, about. The power is fitted to errors of the nearest class
mean of the unadapted network with a part of the images, and drawn towards a usual one, as images are few. The
constants were chosen on domains that no figure of `meta.studies.estimate` is about.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from tinytrain.base.random_streams import rng_for

FRACTIONS = (0.25, 0.5, 0.75, 1.0)  # of the images of a class; of all of them one is left to judge by
DRAWS = 20  # of the images, for each fraction
USUAL, WEIGHT = 0.6, 1.0  # power that others are drawn towards, as strongly as this spread of log images
# Standard deviation of what five more images bring around what is expected: a part that grows with that of a
# single answer, and one that does not.
SPREAD, LEAST_SPREAD = 0.08, 0.02
LEVEL = 1.96  # standard errors: 95 % of a normal distribution
LEAST = 2  # images in every class


@dataclass(frozen=True)
class Gain:
    """Expected rise in accuracy by `images` more of every class, as a fraction, with its 95 % interval."""

    images: int
    gain: float
    low: float
    high: float

    def to_json(self) -> dict:
        return asdict(self)


def expected_gain(embeddings: np.ndarray, labels: np.ndarray, more: int = 5, seed: int = 0) -> Gain | None:
    """What `more` images of every class would bring; None if a class has fewer than LEAST.

    `embeddings` (n, d) have length 1, `labels` (n,) count from 0. Probably mislabelled images are best left
    out by the caller: no number of images mends them.
    """
    shots = np.bincount(labels)
    if shots.min() < LEAST:
        return None
    sizes, errors = zip(*_errors(embeddings, labels, rng_for(seed, "learning curve")), strict=True)
    x, y = np.log(sizes), np.log(np.maximum(errors, 0.5 / len(labels)))
    dx = x - x.mean()
    power = max(0.0, float(WEIGHT * USUAL - dx @ y) / float(dx @ dx + WEIGHT))
    now = float(shots.mean())
    error = min(1.0, math.exp(y.mean() - power * (math.log(now) - x.mean())))
    gain = error * (1 - (now / (now + more)) ** power)
    half = LEVEL * math.hypot(SPREAD * math.sqrt(error * (1 - error)), LEAST_SPREAD)
    return Gain(more, gain, gain - half, gain + half)


def _errors(embeddings: np.ndarray, labels: np.ndarray, rng) -> Iterator[tuple[float, float]]:
    """Images per class, and the mean error of class means of so many on the other images."""
    classes = [np.flatnonzero(labels == k) for k in range(int(labels.max()) + 1)]
    taken = {tuple(min(max(1, int(f * len(c))), len(c) - 1) for c in classes) for f in FRACTIONS}
    for sizes in sorted(taken):
        errors = [_error(embeddings, labels, classes, sizes, rng) for _ in range(DRAWS)]
        yield float(np.mean(sizes)), float(np.mean(errors))


def _error(embeddings, labels, classes, sizes, rng) -> float:
    drawn = [rng.permutation(c)[:size] for c, size in zip(classes, sizes, strict=True)]
    means = np.stack([embeddings[chosen].mean(axis=0) for chosen in drawn])
    rest = np.ones(len(labels), bool)
    rest[np.concatenate(drawn)] = False
    centre = embeddings[~rest].mean(axis=0)
    means -= centre
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-6)
    answers = ((embeddings[rest] - centre) @ means.T).argmax(axis=1)
    return float((answers != labels[rest]).mean())
