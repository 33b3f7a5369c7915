"""Neurons of a NeuroMem chip as a head: an image is identified, uncertain or unknown.

An embedding becomes a pattern of bytes: how far it lies from the mean of the support, in steps that follow
from how far the support images lie from it on average; longer embeddings are folded into 256 bytes. The
logit of a class is minus the distance to its closest neuron (the KNN mode of a chip), so a class is always
named. Which neurons fire says how sure that is. Their fields end where images of other classes were seen, so
the order of the images counts; `fit` shows them to the neurons twice, in the same order.
"""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.heads.calibration import calibrated
from tinytrain.heads.head import (
    ANSWERING,
    IDENTIFIED,
    OUTSIDE,
    UNCERTAIN,
    UNKNOWN,
    Head,
    HeadBuffer,
    HeadMethod,
    Support,
)
from tinytrain.heads.neurons import MAX_BYTES, MAX_CATEGORY, MAX_NEURONS, Neurons
from tinytrain.heads.projection import spread_of

NEURONS = ("patterns", "fields", "categories", "contexts")  # their tensors
NEURONS_PER_CLASS = 32  # until all classes have MAX_NEURONS together
MIDDLE, STEPS, REACH = 128, 127, 4  # the byte of the mean; so many steps are so many average deviations
LARGEST_FIELD = 30  # of a neuron, for each byte of a pattern; settled on images of the development domains


@dataclass(frozen=True, eq=False)
class RceHead(Head):
    """`patterns` (n, bytes) uint8 and the registers of each neuron; `centre` (1, d), `step` (1,) of patterns.

    `fields` and `categories` (n, 2) uint8 are numbers of 16 bits, low byte first; a category is a label plus
    1. `contexts` (n,) uint8. `counts` (way,) are the images that each class was learnt from.
    """

    patterns: np.ndarray
    fields: np.ndarray
    categories: np.ndarray
    contexts: np.ndarray
    centre: np.ndarray
    step: np.ndarray
    counts: np.ndarray

    @property
    def neurons(self) -> Neurons:
        """The machine over the tensors of the head."""
        categories, fields = (a.view("<u2")[:, 0] for a in (self.categories, self.fields))
        largest = LARGEST_FIELD * self.patterns.shape[1]
        return Neurons(self.patterns, categories, fields, self.contexts, largest_field=largest)

    def pattern(self, embedding: np.ndarray) -> np.ndarray:
        """Bytes of an embedding (d,) of any length."""
        unit = embedding / np.sqrt(float(embedding @ embedding) + 1e-12)
        folded = _folded(unit - self.centre[0], self.patterns.shape[1])
        return np.clip(np.rint(folded / self.step[0]) + MIDDLE, 0, 255).astype(np.uint8)

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        neurons, found = self.neurons, np.empty((len(embeddings), len(self.counts)), np.float32)
        for row, e in zip(found, embeddings, strict=True):
            self._nearest(row, neurons, self.pattern(e))
        return found

    def state(self, embedding: np.ndarray, logits: np.ndarray, confidence: float) -> str:
        """UNKNOWN if no neuron fires; IDENTIFIED if all that fire are of the class of the closest neuron.

        That one need not fire itself.
        """
        pattern, neurons = self.pattern(embedding), self.neurons
        categories = {category for _, category in neurons.firing(pattern)}
        if not categories:
            return UNKNOWN
        found, distances = neurons.distances(pattern, 1)
        closest = neurons.categories[found[distances.argmin()]] & MAX_CATEGORY
        return IDENTIFIED if categories == {int(closest)} else UNCERTAIN

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        for e, label in zip(embeddings, labels.tolist(), strict=True):
            self._learn(self.pattern(e), label)
            self.counts[label] += 1

    def problem(self) -> str | None:
        categories, way = self.neurons.categories & MAX_CATEGORY, len(self.counts)
        if categories.max() > way:
            return f"a neuron has category {categories.max()}, the classes end at {way}"
        return None if self.step[0] > 0 else "head.step must be above 0"

    def without_class(self, label: int, way: int) -> "RceHead":
        """A copy whose neurons of class `label` are free; fields that its images made smaller stay small."""
        arrays = {name: values.copy() for name, values in self.tensors().items()}
        head = replace(self, left_out=None, **arrays | {"counts": np.delete(self.counts, label)})
        neurons = head.neurons
        for i in np.flatnonzero((neurons.categories & MAX_CATEGORY) == label + 1)[::-1]:
            neurons.forget(int(i))
        neurons.categories[(neurons.categories & MAX_CATEGORY) > label + 1] -= 1
        most = len(self.method.tensors(way - 1, self.embedding_size)[0].allocate())
        while np.count_nonzero(neurons.categories) > most:
            head._evict()
        return replace(head, **{name: arrays[name][:most].copy() for name in NEURONS})

    def _learn(self, pattern: np.ndarray, label: int) -> None:
        """A neuron that is needed takes the place of the oldest one of the class that has most of them."""
        neurons = self.neurons
        if not neurons.learn(pattern, label + 1):
            self._evict()
            neurons.learn(pattern, label + 1)

    def _evict(self) -> None:
        neurons = self.neurons
        categories = neurons.categories & MAX_CATEGORY
        most = np.bincount(categories[categories > 0], minlength=len(self.counts) + 1).argmax()
        neurons.forget(int((categories == most).argmax()))

    def _nearest(self, logits: np.ndarray, neurons: Neurons, pattern: np.ndarray, least: int = 0) -> None:
        """Minus the mean difference of a byte to the closest neuron of each class, none closer than `least`.

        A class without any is as far as can be.
        """
        found, distances = neurons.distances(pattern, 1)
        labels, far = (neurons.categories[found] & MAX_CATEGORY).astype(int) - 1, distances >= least
        nearest = np.full(len(logits), 255 * len(pattern), np.int32)
        np.minimum.at(nearest, labels[far], distances[far])
        np.divide(nearest, -len(pattern), out=logits, casting="unsafe")


class Rce(HeadMethod):
    name, head = "rce", RceHead
    sized_by = "centre"
    passes = 3  # for the mean, and two to learn

    def buffers(self, way: int, size: int):
        n, length = min(MAX_NEURONS, NEURONS_PER_CLASS * way), min(MAX_BYTES, size)
        return (
            HeadBuffer("patterns", (n, length), ANSWERING, "uint8"),
            HeadBuffer("fields", (n, 2), ANSWERING, "uint8"),
            HeadBuffer("categories", (n, 2), ANSWERING, "uint8"),
            HeadBuffer("contexts", (n,), ANSWERING, "uint8"),
            HeadBuffer("centre", (1, size), ANSWERING),
            HeadBuffer("step", (1,), OUTSIDE),
            HeadBuffer("counts", (way,), OUTSIDE, "int32"),
        )

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> RceHead:
        for name in NEURONS:
            arrays[name].fill(0)
        tensors, length = {name: arrays[name] for name in (*NEURONS, "centre")}, arrays["patterns"].shape[1]
        n, centre = support.write_mean(arrays["centre"]), arrays["centre"][0]
        spread = spread_of(float(centre @ centre), n)
        step = np.array([REACH / STEPS * np.sqrt(spread / length)], np.float32)
        head = RceHead(self, **tensors, step=step, counts=support.images.astype(np.int32))
        for _ in range(1, self.passes):
            for e, label in support.each():
                head._learn(head.pattern(e), label)
        neurons = head.neurons

        def leave_out(logits, e, label):
            """Without the neurons that hold the very pattern of the image."""
            others = np.empty_like(logits)
            head._nearest(others, neurons, head.pattern(e), least=1)
            logits[label] = others[label]

        return calibrated(head, support, leave_out)


def _folded(values: np.ndarray, length: int) -> np.ndarray:
    """(length,) sums of every so-manieth of `values` (d,); these themselves if there are no more."""
    if len(values) <= length:
        return values
    padded = np.zeros(-(-len(values) // length) * length, values.dtype)
    padded[: len(values)] = values
    return padded.reshape(-1, length).sum(axis=0)


METHOD = Rce()
