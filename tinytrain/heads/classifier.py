"""Heads as a session fits them: one array for each buffer, and a name for the method."""

from dataclasses import dataclass

import numpy as np

from tinytrain.heads.head import Batch, Batches, Head, Support
from tinytrain.heads.lda import SCATTER, packed
from tinytrain.heads.linear import class_means
from tinytrain.heads.registry import HEADS

__all__ = ["Batch", "Batches", "Head", "HeadArrays", "class_means", "fit_head", "packed"]


@dataclass
class HeadArrays:
    """Arena arrays: weights (way, d), offsets (way,), means (way, d), counts (way,), scatter (d, d)."""

    weights: np.ndarray
    offsets: np.ndarray
    means: np.ndarray
    counts: np.ndarray
    scatter: np.ndarray | None


def fit_head(kind: str, kernels, arrays: HeadArrays, every_view: Batches, clean: Batches, images) -> Head:
    """The head of that kind in `arrays`, as `HeadMethod.fit` makes it."""
    named = {name: getattr(arrays, name) for name in ("weights", "offsets", "means")}
    named |= {"class counts": arrays.counts, SCATTER: arrays.scatter}
    return HEADS[kind].fit(kernels, named, Support(every_view, clean, images))
