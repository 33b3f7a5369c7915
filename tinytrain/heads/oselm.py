"""OS-ELM: a hidden layer of random weights, and a ridge regression on it that learns image by image.

The head of Matsutani's on-device learning (Liang et al., "A fast and accurate online sequential learning
algorithm for feedforward networks", IEEE Transactions on Neural Networks 17, 2006). Its updates are exact: it
knows as much as if all images had been there at once. The hidden layer sees an embedding minus the mean of
the first images. It is stored nowhere (`heads.projection`). A baseline: with UNITS hidden units it stays some
points behind LDA, and 256 of them, which nearly reach it, would take 262 kB.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.heads.calibration import calibrated
from tinytrain.heads.head import ANSWERING, OUTSIDE, UPDATING, Head, HeadBuffer, HeadMethod, Support, unit
from tinytrain.heads.projection import hidden, write_centre
from tinytrain.heads.recursive import begin, learn, leverage

UNITS = 128  # hidden ones
RIDGE = 1.0


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
        return hidden(unit(embeddings) - self.centre, UNITS, float(self.slope[0]))

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        return self.hidden(embeddings) @ self.weights.T

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        for h, label in zip(self.hidden(embeddings), labels.tolist(), strict=True):
            target = np.zeros(len(self.weights), np.float32)
            target[label] = 1
            learn(self.inverse, self.weights, h, target)
            self.counts[label] += 1

    def problem(self) -> str | None:
        if self.inverse.diagonal().min() <= 0:
            return "the diagonal of head.inverse must be above 0"
        known = self.slope[0] > 0 and self.counts.min() >= 1
        return None if known else "head.slope and head.counts must be above 0"


class Oselm(HeadMethod):
    name, head = "oselm", OselmHead
    sized_by = "centre"
    passes = 2  # for the mean, and to learn

    def buffers(self, way: int, size: int):
        return (
            HeadBuffer("weights", (way, UNITS), ANSWERING),
            HeadBuffer("inverse", (UNITS, UNITS), UPDATING),
            HeadBuffer("centre", (1, size), ANSWERING),
            HeadBuffer("slope", (1,), OUTSIDE),
            HeadBuffer("counts", (way,), OUTSIDE, "int32"),
        )

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> OselmHead:
        slope = np.array([1 / np.sqrt(write_centre(arrays["centre"], support))], np.float32)
        begin(arrays["inverse"], arrays["weights"], RIDGE)
        tensors = {name: arrays[name] for name in ("weights", "inverse", "centre")}
        head = OselmHead(self, **tensors, slope=slope, counts=np.zeros(len(support.images), np.int32))
        for embeddings, labels in support.clean():
            head.update(kernels, embeddings, labels)

        def leave_out(logits, e, label):
            """Exact: the leverage of an image says what the others alone would have answered."""
            own = leverage(head.inverse, head.hidden(e[None])[0])
            logits[label] -= own
            logits /= 1 - own

        return calibrated(head, support, leave_out)


METHOD = Oselm()
