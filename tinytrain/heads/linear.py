"""Heads that are a linear map of the embedding scaled to length 1: ``logits = weights @ e + offsets``.

Their state is class means of unit embeddings, or sums of these, from which every method makes weights and
offsets of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tinytrain.heads import calibration
from tinytrain.heads.head import (
    ANSWERING,
    FITTING,
    OUTSIDE,
    UPDATING,
    Batch,
    Head,
    HeadBuffer,
    HeadMethod,
    Support,
    unit,
)
from tinytrain.heads.out_of_distribution import finder_for
from tinytrain.kernels.rows import divide_rows, dots


def linear_buffers(way: int, size: int, means: str = UPDATING) -> tuple[HeadBuffer, ...]:
    """Those of every linear head; `means` is the lifetime of class means."""
    return (
        HeadBuffer("weights", (way, size), ANSWERING),
        HeadBuffer("offsets", (way,), ANSWERING),
        HeadBuffer("means", (way, size), means),
        HeadBuffer("counts", (way,), OUTSIDE, "int32"),
        HeadBuffer("class counts", (way,), FITTING),
    )


@dataclass(frozen=True, eq=False)
class LinearHead(Head):
    """`weights` (way, d), `offsets` (way,), and how many embeddings each class has, `counts` (way,)."""

    weights: np.ndarray
    offsets: np.ndarray
    counts: np.ndarray

    KEPT: ClassVar = ("weights", "offsets")  # arrays of a fit that become fields of the head

    @property
    def images(self) -> np.ndarray:
        """How many images stand behind each class, (way,)."""
        return self.counts.astype(self.weights.dtype) / self.weights.dtype.type(self.views)

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        return unit(embeddings) @ self.weights.T + self.offsets

    def problem(self) -> str | None:
        return "class counts must be at least 1" if self.counts.min() < 1 else None


def class_means(kernels, means: np.ndarray, counts: np.ndarray, batches: Iterable[Batch]) -> None:
    """Means (way, d) of the embeddings of each class, and how many there are, (way,)."""
    means.fill(0)
    counts.fill(0)
    for embeddings, labels in batches:
        kernels.class_sums(means, counts, embeddings, labels)
    divide_rows(means, counts, out=means)


def uncalibrated(method: HeadMethod, arrays: dict[str, np.ndarray], support: Support) -> LinearHead:
    """The head in `arrays`, of which the means and ``class counts`` are known, before it is calibrated."""
    counts = arrays["class counts"].astype(np.int32)
    views = sum(counts.tolist()) // int(sum(support.images.tolist()))
    tensors = {name: arrays[name] for name in method.head.KEPT if name in arrays}
    return method.head(method, **tensors, counts=counts, views=views)


def calibrated(
    head: LinearHead,
    means: np.ndarray,
    support: Support,
    own_logit: Callable[[np.ndarray, np.ndarray, float], float] | None = None,
    leave_out: Callable[[np.ndarray, np.ndarray, int], None] | None = None,
    unseen: Callable[[np.ndarray, np.ndarray, int], np.ndarray] | None = None,
) -> LinearHead:
    """`head`, calibrated by each clean image after it is taken out of the mean of its class, one of `means`.

    ``own_logit(mean, e, images)`` is the logit of the unit embedding `e` for a class with that mean of so
    many images. All views of an image are assumed to have the embedding of the clean image. Where more than
    the own class follows, ``leave_out(logits, e, label)`` does it all. ``unseen(logits, e, label)`` returns
    what the limit is found from and `support` is told, if that is not what `leave_out` gives.
    """
    images = support.images

    def logits_of(e):
        return dots(head.weights, e) + head.offsets

    def own_class(logits, e, label):
        scale = images[label] / (images[label] - 1)
        mean = means[label] * scale - e * (scale - 1)
        logits[label] = own_logit(mean, e, images[label] - 1)

    found = finder_for(head.method, support, lambda k: logits_of(means[k]))
    leave = leave_out or own_class

    def left_out(logits, e, label):
        leave(logits, e, label)
        without = unseen(logits, e, label) if unseen and (found or support.judge) else logits
        if found:
            found.add(without, label)
        if support.judge:
            support.judge(without, label)

    return calibration.calibrated(head, support, left_out, logits_of, found)
