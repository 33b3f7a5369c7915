"""What a background brings, by images left out: how many of its like are taken, how many are still named."""

from dataclasses import dataclass

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.base.statistics import wilson_interval
from tinytrain.drift.refit import fitted
from tinytrain.heads.registry import find_head

HEAD, LEAST, DRAWS = "lda", 4, 5  # what is fitted; images of a background, and draws of a half of them


@dataclass(frozen=True)
class Background:
    """`taken` of new images of the background are taken for a class, with the 95 % interval `low` to `high`.

    `kept` of the images of the classes are named rightly, and `half` with half of the `images`; all are
    fractions.
    """

    images: int
    taken: float
    low: float
    high: float
    kept: float
    half: float


def measured(
    kernels, embeddings: np.ndarray, labels: np.ndarray, background: int | None, seed: int
) -> Background | None:
    """What the images with label `background` bring; None if they are fewer than LEAST, or none are.

    `embeddings` (n, d) and `labels` (n,) are those of all images, each of which is left out in turn.
    """
    mine, others = np.flatnonzero(labels == background), np.flatnonzero(labels != background)
    if len(mine) < LEAST:
        return None
    taken, kept = _left_out(kernels, embeddings, labels, background)
    halves = []
    for draw in range(DRAWS):
        some = rng_for(seed, "background", draw).permutation(mine)[: len(mine) // 2]
        chosen = np.concatenate([others, some])
        halves.append(_left_out(kernels, embeddings[chosen], labels[chosen], background)[1].mean())
    low, high = wilson_interval(int(taken.sum()), len(taken))
    return Background(len(mine), float(taken.mean()), low, high, float(kept.mean()), float(np.mean(halves)))


def _left_out(kernels, embeddings, labels, background: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether each image of the background is taken for a class, and each of a class is named rightly."""
    seen: list[tuple[np.ndarray, int]] = []

    def judge(logits: np.ndarray, label: int) -> None:
        seen.append((logits.copy(), label))

    head = fitted(find_head(HEAD), kernels, embeddings, labels, background, judge)
    named = [(int(logits.argmax()), head.limit.admits(logits), label) for logits, label in seen]
    taken = [admitted for _, admitted, label in named if label == background]
    kept = [admitted and guess == label for guess, admitted, label in named if label != background]
    return np.array(taken), np.array(kept)
