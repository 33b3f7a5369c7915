"""Who means the same by the name of a class: class means of several deltas, and what most of them say."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tinytrain.heads.moments import UNIT, Moments

LEAST = 3  # deltas that hold a class: of two that differ nobody can say which is right
CHANCE = 2  # times what images that are drawn anew change on average


class Votes(NamedTuple):
    """Of a class: which deltas hold it (n,), and which pairs of these are `far` apart, (n, n) bool."""

    held: np.ndarray
    far: np.ndarray

    @property
    def outvoted(self) -> np.ndarray:
        """Those that are far from more than half of the others."""
        if len(self.held) < LEAST:
            return self.held[:0]
        return self.held[self.far.sum(axis=1) > (len(self.held) - 1) / 2]


def votes_on(moments: Sequence[Moments], views: Sequence[int]) -> list[Votes]:
    """Of each class; `moments` of all deltas have the same classes, and so many `views` of an image.

    Class means are far apart if more than half of what lies between two classes of one delta, in the median,
    is between them, and twice what chance adds: the variance of an image divided by the number of images.
    """
    means = [m.sums / (np.maximum(m.counts, 1)[:, None] * UNIT) for m in moments]
    between = [
        _squares(x[m.counts > 0])[np.triu_indices(np.count_nonzero(m.counts), 1)]
        for m, x in zip(moments, means, strict=True)
    ]
    inside = sum(
        m.counts.sum() - float(m.counts @ np.square(x).sum(axis=1))
        for m, x in zip(moments, means, strict=True)
    )
    variance = max(0.0, inside / sum(m.counts.sum() for m in moments))
    usual, found = float(np.median(np.concatenate(between))), []
    for k in range(len(moments[0].counts)):
        held = np.flatnonzero([m.counts[k] for m in moments])
        far = _squares(np.stack([means[i][k] for i in held]))
        chance = variance * np.array([views[i] / moments[i].counts[k] for i in held])
        far = far > usual / 2 + CHANCE * (chance[:, None] + chance)
        np.fill_diagonal(far, False)
        found.append(Votes(held, far))
    return found


def _squares(rows: np.ndarray) -> np.ndarray:
    """Squared distances (n, n) of all pairs of `rows`."""
    lengths = np.square(rows).sum(axis=1)
    return lengths[:, None] + lengths - 2 * rows @ rows.T
