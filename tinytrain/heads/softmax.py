"""TinyOL: a softmax layer behind a running standardiser, both learnt image by image.

Ren, Anicic and Runkler, "TinyOL: TinyML with online-learning on microcontrollers", 2021. Steps are those of
stochastic gradients. An image of a stream is used once and dropped: the head never grows. The order of the
images counts; `fit` goes through the support several times in its order, first for the standardiser. A step
is divided by the length of its input (as in normalised least mean squares), so that one rate suits every
network.

A baseline: what LDA solves, this head approaches step by step.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.heads.calibration import calibrated
from tinytrain.heads.calibration import softmax as probabilities_of
from tinytrain.heads.head import ANSWERING, FITTING, OUTSIDE, Head, HeadBuffer, HeadMethod, Support, unit
from tinytrain.heads.recursive import observe, product

RATE = 0.5
LEAST_VARIANCE = 0.05  # of a value, as a fraction of that of a value of unrelated embeddings


@dataclass(frozen=True, eq=False)
class SoftmaxHead(Head):
    """`weights` (way, d) and `biases` (way,) of the layer; `statistics` (2, d) of `seen` (1,) images."""

    weights: np.ndarray
    biases: np.ndarray
    statistics: np.ndarray
    seen: np.ndarray

    def standardised(self, embeddings: np.ndarray) -> np.ndarray:
        """(n, d) of embeddings (n, d) of length 1. A value that hardly varies is not blown up."""
        variance = self.statistics[1] / max(int(self.seen[0]) - 1, 1)
        least = np.float32(LEAST_VARIANCE / len(variance))
        return (embeddings - self.statistics[0]) / np.sqrt(variance + least)

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        return self.standardised(unit(embeddings)) @ self.weights.T + self.biases

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        for e, label in zip(embeddings, labels.tolist(), strict=True):
            self.observe(e)
            self.step(e, label)

    def observe(self, e: np.ndarray) -> None:
        """Let the standardiser see an embedding (d,) of length 1."""
        self.seen[0] += 1
        observe(self.statistics, int(self.seen[0]), e)

    def step(self, e: np.ndarray, label: int) -> float:
        """A step of the layer towards `label`; by how much the logit of that class for `e` (d,) rises."""
        z = self.standardised(e[None])[0]
        # In float64, where other processors may round exponentials otherwise: in float32 they then agree.
        missing = -probabilities_of((product(self.weights, z) + self.biases).astype(float)).astype(z.dtype)
        missing[label] += 1
        steps = missing * np.float32(RATE / (float(np.square(z).sum()) + 1))
        np.add(self.biases, steps, out=self.biases)
        for row, step in zip(self.weights, steps, strict=True):
            row += step * z
        return float(RATE * missing[label])

    def problem(self) -> str | None:
        if self.seen[0] < 1 or self.statistics[1].min() < 0:
            return "head.seen must be above 0, and no variance in head.statistics below 0"
        return None


class Softmax(HeadMethod):
    name, head = "softmax", SoftmaxHead
    passes = 5  # for the standardiser, and to learn

    def buffers(self, way: int, size: int):
        return (
            HeadBuffer("weights", (way, size), ANSWERING),
            HeadBuffer("biases", (way,), ANSWERING),
            HeadBuffer("statistics", (2, size), ANSWERING),
            HeadBuffer("seen", (1,), OUTSIDE, "int32"),
        )

    def buffers_for(self, way: int, size: int, embeddings: int):
        return (*self.buffers(way, size), HeadBuffer("own steps", (embeddings,), FITTING))

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> SoftmaxHead:
        for name in ("weights", "biases", "statistics", "own steps"):
            arrays[name].fill(0)
        tensors = {name: arrays[name] for name in ("weights", "biases", "statistics")}
        head, own = SoftmaxHead(self, **tensors, seen=np.zeros(1, np.int32)), arrays["own steps"]
        for e, _ in support.each():
            head.observe(e)
        for _ in range(1, self.passes):
            for place, (e, label) in enumerate(support.each()):
                own[place] += head.step(e, label)
        place = -1  # of the image that is judged; all are, in the order in which they were shown

        def logits(e):
            nonlocal place
            place += 1
            return head.logits(e[None])[0]

        def leave_out(logits, e, label):
            """Without the steps that were taken for the image."""
            logits[label] -= own[place]

        return calibrated(head, support, leave_out, logits)


METHOD = Softmax()
