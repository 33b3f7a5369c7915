"""The neurons of a NeuroMem chip: restricted Coulomb energy, in integers as the hardware computes it.

A neuron holds a pattern of up to 256 bytes, a category, a context and an influence field. It fires for a
pattern of its context that is closer than its field. Neurons are committed one after another; the others
have category 0. Learning shrinks the fields that wrongly fired and commits a neuron if none of the right
category fired (General Vision, NeuroMem technology reference; Reilly, Cooper and Elbaum, "A neural model for
category learning", Biological Cybernetics 45, 1982). The field of a new neuron ends at the closest neuron of
its context, whatever the category of that one, as in the published software model of the chip.
"""

from dataclasses import dataclass

import numpy as np

MAX_NEURONS = 576  # of a chip
MAX_BYTES = 256  # of a pattern
LARGEST_FIELD, SMALLEST_FIELD = 0x4000, 2  # as a chip starts
DEGENERATE = 0x8000  # bit of a category: the field of the neuron was to shrink below the smallest one
MAX_CATEGORY = DEGENERATE - 1
BLOCK = 16  # neurons whose distances are computed at a time, to need little more memory


@dataclass(frozen=True, eq=False)
class Neurons:
    """`patterns` (n, length) uint8, `categories` (n,) and `fields` (n,) uint16, `contexts` (n,) uint8.

    A distance is the sum of the differences (L1), which is one of the two norms of the chip.
    """

    patterns: np.ndarray
    categories: np.ndarray
    fields: np.ndarray
    contexts: np.ndarray
    largest_field: int = LARGEST_FIELD

    def committed(self, context: int) -> np.ndarray:
        """Indices of the committed neurons of a context, in the order of their commitment."""
        return np.flatnonzero((self.categories != 0) & (self.contexts == context))

    def distances(self, pattern: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the committed neurons of a context, and how far `pattern` (length,) is from each."""
        found = self.committed(context)
        distances, wide = np.empty(len(found), np.int32), pattern.astype(np.int16)
        for first in range(0, len(found), BLOCK):
            part = found[first : first + BLOCK]
            distances[first : first + BLOCK] = np.abs(self.patterns[part] - wide).sum(axis=1)
        return found, distances

    def firing(self, pattern: np.ndarray, context: int = 1) -> list[tuple[int, int]]:
        """Distance and category of every neuron that fires, the closest one first."""
        found, distances = self.distances(pattern, context)
        fires = distances < self.fields[found]
        categories = self.categories[found[fires]] & MAX_CATEGORY
        return sorted(zip(distances[fires].tolist(), categories.tolist(), strict=True))

    def learn(self, pattern: np.ndarray, category: int, context: int = 1) -> bool:
        """Learn that `pattern` (length,) is of `category`; of category 0: of none that is known.

        Returns False if a neuron is needed and all are committed; then fields have shrunk, nothing else.
        """
        found, distances = self.distances(pattern, context)
        fires = distances < self.fields[found]
        right = (self.categories[found] & MAX_CATEGORY) == category
        for i, distance in zip(found[fires & ~right], distances[fires & ~right].tolist(), strict=True):
            self._set_field(i, distance)
        if category == 0 or (fires & right).any():
            return True
        free = np.flatnonzero(self.categories == 0)
        if not len(free):
            return False
        new = free[0]
        self.patterns[new], self.categories[new], self.contexts[new] = pattern, category, context
        self._set_field(new, min([self.largest_field, *distances.tolist()]))
        return True

    def forget(self, i: int) -> None:
        """Take neuron `i` out; those committed later move down, so that the order is that of commitment."""
        for values in (self.patterns, self.categories, self.fields, self.contexts):
            values[i:-1] = values[i + 1 :]
            values[-1] = 0

    def _set_field(self, i: int, field: int) -> None:
        self.fields[i] = max(field, SMALLEST_FIELD)
        if field <= SMALLEST_FIELD:
            self.categories[i] |= DEGENERATE
