"""OS-ELM: a hidden layer of random weights, and a ridge regression on it that learns image by image.

The head of Matsutani's on-device learning (Liang et al., "A fast and accurate online sequential learning
algorithm for feedforward networks", IEEE Transactions on Neural Networks 17, 2006). Its updates are exact: it
knows as much as if all images had been there at once. The hidden layer sees an embedding minus the mean of
the first images. It is stored nowhere (`heads.projection`). A baseline: with UNITS hidden units it stays some
points behind LDA, and 256 of them, which nearly reach it, would take 262 kB.
"""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.heads.calibration import calibrate
from tinytrain.heads.head import ANSWERING, BESIDE, UPDATING, Head, HeadBuffer, HeadMethod, Support
from tinytrain.heads.projection import hidden
from tinytrain.heads.recursive import begin, learn, leverage

UNITS = 128  # hidden ones
RIDGE = 1.0
LEAST_SPREAD = 1e-6  # squared: images that are all alike say nothing about how far others lie apart


@dataclass(frozen=True, eq=False)
class OselmHead(Head):
    """`weights` (way, UNITS), `inverse` (UNITS, UNITS) of the regression; of the layer before it `centre`
    (1, d) and `slope` (1,). `counts` (way,) are the images of each class.
    """

    weights: np.ndarray
    inverse: np.ndarray | None
    centre: np.ndarray
    slope: np.ndarray
    counts: np.ndarray

    def hidden(self, embeddings: np.ndarray) -> np.ndarray:
        """(n, UNITS) of embeddings (n, d) of any length."""
        unit = embeddings / np.sqrt((embeddings**2).sum(axis=1, keepdims=True) + 1e-12)
        return hidden(unit - self.centre, UNITS, float(self.slope[0]))

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        return self.hidden(embeddings) @ self.weights.T

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        for h, label in zip(self.hidden(embeddings), labels.tolist(), strict=True):
            target = np.zeros(len(self.weights), np.float32)
            target[label] = 1
            learn(self.inverse, self.weights, h, target, self.method.forgetting, self.method.largest_trace)
            self.counts[label] += 1

    def problem(self) -> str | None:
        if self.inverse.diagonal().min() <= 0:
            return "the diagonal of head.inverse must be above 0"
        known = self.slope[0] > 0 and self.counts.min() >= 1
        return None if known else "head.slope and head.counts must be above 0"


class Oselm(HeadMethod):
    """`forgetting` below 1 lets old images count less; `largest_trace` then bounds the inverse."""

    name, head = "oselm", OselmHead
    sized_by = "centre"
    passes = 2  # for the mean, and to learn
    any_order = True
    forgetting, largest_trace = 1.0, 4 * UNITS / RIDGE

    def buffers(self, way: int, size: int):
        return (
            HeadBuffer("weights", (way, UNITS), ANSWERING),
            HeadBuffer("inverse", (UNITS, UNITS), UPDATING),
            HeadBuffer("centre", (1, size), ANSWERING),
            HeadBuffer("slope", (1,), BESIDE),
            HeadBuffer("counts", (way,), BESIDE, "int32"),
        )

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> OselmHead:
        slope = np.array([1 / np.sqrt(centre_of(arrays["centre"], support))], np.float32)
        begin(arrays["inverse"], arrays["weights"], RIDGE)
        tensors = {name: arrays[name] for name in ("weights", "inverse", "centre")}
        head = OselmHead(self, **tensors, slope=slope, counts=np.zeros(len(support.images), np.int32))
        for embeddings, labels in support.clean():
            head.update(kernels, embeddings, labels)
        return _calibrated(head, support)


def centre_of(centre: np.ndarray, support: Support) -> float:
    """Write the mean of the clean images to `centre` (1, d); their mean squared distance from it.

    That is 1 - |mean|^2, as embeddings have length 1, and too small by 1 / n, as the mean is their own.
    """
    n = int(support.images.sum())
    centre.fill(0)
    for embeddings, _ in support.clean():
        centre += embeddings.sum(axis=0)
    centre /= n
    spread = (1 - float(np.square(centre).sum())) * n / max(n - 1, 1)
    return spread if spread > LEAST_SPREAD else 1.0


def _calibrated(head: OselmHead, support: Support) -> OselmHead:
    """Leaving an image out is exact: its leverage says what the others alone would have answered."""

    def leave_out(logits, e, label):
        own = leverage(head.inverse, head.hidden(e[None])[0])
        logits[label] -= own
        logits /= 1 - own

    temperature, left_out = calibrate(support, lambda e: head.logits(e[None])[0], leave_out)
    return replace(head, temperature=temperature, left_out=left_out)


METHOD = Oselm()
