"""An OS-ELM autoencoder for each class: an image is of the class that reproduces its embedding best.

The anomaly detector of Matsutani's on-device learning (Tsukada, Kondo and Matsutani, IEEE Transactions on
Computers, 2020): the hidden layer of `heads.oselm`, and a regression back to the embedding, here minus the
mean of the first images. One more unit is the same for every image: with it a class has learnt its mean from
its first images, and what they have in common besides from many. An image belongs to a class if its error is
not above the mean of what the images of that class had when they were new, plus DEVIATIONS standard
deviations. So one class is enough: images that are normal, without any that are not.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.heads.calibration import calibrated
from tinytrain.heads.head import (
    ANSWERING,
    IDENTIFIED,
    OUTSIDE,
    UNCERTAIN,
    UNKNOWN,
    UPDATING,
    Head,
    HeadBuffer,
    HeadMethod,
    HeadVerdict,
    Normal,
    Support,
    unit,
)
from tinytrain.heads.out_of_distribution import UNSURE
from tinytrain.heads.projection import hidden, write_centre
from tinytrain.heads.recursive import begin, learn, leverage, observe, product

UNITS = 16  # hidden ones of each class, the constant one counted
CONSTANT = 17.0
RIDGE = 30.0
SLOPE = 3.0  # of the hidden layer, times the inverse of the average deviation
# Settled on images of the development domains, so that about one in ten images of a class is above the limit:
# so many standard deviations above the mean, one image more having deviated by USUAL of the mean.
DEVIATIONS, USUAL = 1.5, 0.4
SINGLE = 1.4  # the limit of a class of one image
# A later image with less than this part of the mean error nearly repeats what was learnt. It says nothing
# about new images, of which few are below.
REPEATED = 0.5
SURE = 0.95  # confidence in an image whose error is the mean; at the limit it is half
STEEPEST = 50.0  # power of the error in units of the limit by which confidence falls
FARTHEST = 1e6  # error in units of the limit: to that power, still a number
LEAST_ERROR, LEAST_STEP = 1e-6, 1e-3  # of images that are all alike


@dataclass(frozen=True, eq=False)
class OselmAeHead(Head):
    """`weights` (way, d, UNITS) and `inverses` (way, UNITS, UNITS) of the regressions, `centre` (1, d).

    `spread` (1,) is the mean squared distance of the first images from the centre, the unit of errors.
    `errors` (way, 2) are mean and sum of squared deviations of those of new images, `counts` (way,) of them:
    an image that nearly repeats others is learnt, but not counted.
    """

    weights: np.ndarray
    inverses: np.ndarray | None
    centre: np.ndarray
    spread: np.ndarray
    errors: np.ndarray
    counts: np.ndarray

    def errors_of(self, embeddings: np.ndarray) -> np.ndarray:
        """(n, way) squared distances of embeddings (n, d), of any length, from what classes make of them."""
        found = np.empty((len(embeddings), len(self.counts)), np.float32)
        for row, centred, h in zip(found, *self._seen(embeddings), strict=True):
            for k, weights in enumerate(self.weights):
                row[k] = np.square(centred - product(weights, h)).sum()
        return found / self.spread

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        """1 minus the error of each class; one without images is farther than any."""
        found = 1 - self.errors_of(embeddings)
        empty = self.counts == 0
        if empty.any():
            found[:, empty] = found[:, ~empty].min(axis=1, initial=0, keepdims=True) - 1
        return found

    def limits(self) -> np.ndarray:
        """(way,) errors; an image with a larger one does not belong to the class."""
        mean, squares = self.errors.T
        deviation = np.sqrt((squares + (USUAL * mean) ** 2) / np.maximum(self.counts, 1))
        return np.where(self.counts > 1, mean + DEVIATIONS * deviation, SINGLE)

    def normal(self) -> Normal | None:
        return Normal(float(self.errors[0, 0]), float(self.limits()[0])) if len(self.counts) == 1 else None

    def verdict(self, embedding: np.ndarray, reject: float | None = None) -> HeadVerdict:
        """Of a single class, the confidence says whether an image belongs to it: half at the limit."""
        found = super().verdict(embedding, reject)
        if len(self.counts) > 1:
            return found
        error, limit = self._error(embedding, found.label)
        typical = max(float(self.errors[0, 0]), LEAST_ERROR)
        steepness = math.log(SURE / (1 - SURE)) / max(math.log(limit / typical), LEAST_STEP)
        confidence = 1 / (1 + min(error / limit, FARTHEST) ** min(steepness, STEEPEST))
        rejected = reject is not None and confidence < reject
        return replace(found, confidence=confidence, rejected=rejected, score=error, threshold=limit)

    def state(self, embedding: np.ndarray, logits: np.ndarray, confidence: float) -> str:
        error, limit = self._error(embedding, int(logits.argmax()))
        if error > limit:
            return UNKNOWN
        return IDENTIFIED if confidence >= UNSURE else UNCERTAIN

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        for centred, h, label in zip(*self._seen(embeddings), labels.tolist(), strict=True):
            error = np.square(centred - product(self.weights[label], h)).sum() / self.spread[0]
            self._learn(label, centred, h)
            # The first image of a class meets a head that knows nothing of it: its error says little.
            if self.counts[label] > 1 and error < REPEATED * self.errors[label, 0]:
                continue
            self.counts[label] += 1
            observe(self.errors[label, :, None], self.counts[label], error)

    def extended(self, way: int) -> "OselmAeHead":
        head, known = super().extended(way), len(self.counts)
        for k in range(known, way):
            begin(head.inverses[k], head.weights[k], RIDGE)
        return head

    def problem(self) -> str | None:
        if self.inverses.diagonal(axis1=1, axis2=2).min() <= 0:
            return "the diagonals of head.inverses must be above 0"
        below = self.errors.min() < 0 or self.spread[0] <= 0 or self.counts.min() < 1
        return "head.counts and head.spread must be above 0, head.errors not below" if below else None

    def _seen(self, embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings (n, d) minus the centre, and what the hidden layer makes of them, (n, UNITS)."""
        centred = unit(embeddings) - self.centre
        found = np.full((len(centred), UNITS), CONSTANT, centred.dtype)
        found[:, :-1] = hidden(centred, UNITS - 1, SLOPE / math.sqrt(float(self.spread[0])))
        return centred, found

    def _error(self, embedding: np.ndarray, label: int) -> tuple[float, float]:
        """The error of class `label` for an embedding (d,), and the limit of that class."""
        limit = max(float(self.limits()[label]), LEAST_ERROR)
        return float(self.errors_of(embedding[None])[0, label]), limit

    def _learn(self, label: int, centred: np.ndarray, h: np.ndarray) -> None:
        learn(self.inverses[label], self.weights[label], h, centred)


class OselmAe(HeadMethod):
    name, head = "oselm-ae", OselmAeHead
    sized_by = "centre"
    passes = 3  # for the mean, to learn, and for the errors
    least_classes = 1

    def buffers(self, way: int, size: int):
        return (
            HeadBuffer("weights", (way, size, UNITS), ANSWERING),
            HeadBuffer("inverses", (way, UNITS, UNITS), UPDATING),
            HeadBuffer("centre", (1, size), ANSWERING),
            HeadBuffer("spread", (1,), OUTSIDE),
            HeadBuffer("errors", (way, 2), OUTSIDE),
            HeadBuffer("counts", (way,), OUTSIDE, "int32"),
        )

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> OselmAeHead:
        way, counts = len(support.images), support.images.astype(np.int32)
        spread = np.array([write_centre(arrays["centre"], support)], np.float32)
        for inverse, weights in zip(arrays["inverses"], arrays["weights"], strict=True):
            begin(inverse, weights, RIDGE)
        tensors = {name: arrays[name] for name in ("weights", "inverses", "centre")}
        errors = np.zeros((way, 2), np.float32)
        head = OselmAeHead(self, **tensors, spread=spread, errors=errors, counts=counts)
        for embeddings, labels in support.clean():
            for centred, h, label in zip(*head._seen(embeddings), labels.tolist(), strict=True):
                head._learn(label, centred, h)
        seen = [0] * way
        for e, label in support.each():
            seen[label] += 1
            observe(head.errors[label, :, None], seen[label], left_out_errors(head, e, label)[label])

        def leave_out(logits, e, label):
            logits[:] = 1 - left_out_errors(head, e, label)

        return calibrated(head, support, leave_out) if way > 1 else _accepting(head, support)


def left_out_errors(head: OselmAeHead, e: np.ndarray, label: int) -> np.ndarray:
    """Errors (way,) for an embedding (d,) that the head was fitted to, without it.

    Its leverage says what the others of its class would have made of it.
    """
    centred, h = (found[0] for found in head._seen(e[None]))
    found = np.array([np.square(centred - product(weights, h)).sum() for weights in head.weights])
    found[label] /= (1 - leverage(head.inverses[label], h)) ** 2
    return found / float(head.spread[0])


def _accepting(head: OselmAeHead, support: Support) -> OselmAeHead:
    """The head of a single class; `left_out` is the fraction of left-out images not above its limit."""
    n, limit = int(support.images[0]), head.limits()[0]
    errors = (left_out_errors(head, e, 0)[0] for e, _ in support.each())
    return replace(head, left_out=sum(bool(error <= limit) for error in errors) / n if n > 1 else None)


METHOD = OselmAe()
