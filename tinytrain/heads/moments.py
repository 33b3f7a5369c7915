"""Sums of embeddings that add up exactly: whole numbers, in any order and any grouping the same bits.

An embedding of length 1 is rounded to multiples of 2^-20, and so is every product of two of its values. Of
all embeddings there are the `sums` (way, d) by class and the `products` (d * (d + 1) / 2,), the lower
triangle of the sum of x x^T, both in units of 2^-20. As |x| is at most 1, int32 holds those of NARROW
embeddings, whatever they are, and int64 those of MOST. Means and scatter follow from them. Few embeddings are
fewer numbers than their triangle, and stand for themselves: rounded, they give the same sums at any time.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import InputError

BITS = 20
UNIT = 2**BITS
NARROW = 2047  # embeddings, of length 1 up to rounding
MOST = 2**31 - 1  # embeddings of a class


def dtype_for(embeddings: int) -> str:
    """That of the sums of so many embeddings."""
    return "int32" if embeddings <= NARROW else "int64"


def on_grid(x: np.ndarray) -> np.ndarray:
    """The nearest multiples of 2^-20 of values; halves go away from 0."""
    return np.trunc(x * UNIT + np.copysign(x.dtype.type(0.5), x)) / UNIT


def in_units(rows: np.ndarray) -> np.ndarray:
    """Values in units of 2^-20, int64."""
    return (on_grid(rows.astype(float)) * UNIT).astype(np.int64)


def products_of(rows: np.ndarray) -> np.ndarray:
    """The sum of the products of `rows` (n, d), (d * (d + 1) / 2,) int64, as `add_products` of kernels."""
    found = np.zeros((rows.shape[1],) * 2, np.int64)
    for row in in_units(rows):
        found += (row[:, None] * row + UNIT // 2) >> BITS
    return found[np.tril_indices(len(found))]


def sums_of(rows: np.ndarray, labels: np.ndarray, way: int) -> np.ndarray:
    """Those of `rows` (n, d) by class, (way, d) int64."""
    found = np.zeros((way, rows.shape[1]), np.int64)
    np.add.at(found, labels, in_units(rows))
    return found


def write_means(sums: np.ndarray, counts: np.ndarray, means: np.ndarray) -> None:
    """The `means` (way, d) of the `sums`, of so many embeddings; a value that was no number stays one."""
    for total, count, mean in zip(sums, counts.tolist(), means, strict=True):
        mean -= mean
        mean += total.astype(mean.dtype) / mean.dtype.type(max(count, 1) * UNIT)


def more_images(counts: np.ndarray, added: np.ndarray) -> np.ndarray:
    """The sum (way,) of two counts of embeddings. Raises InputError for more of a class than MOST."""
    total = counts.astype(np.int64) + added
    if total.max(initial=0) > MOST:
        raise InputError(
            "bad-value", f"a class would stand for {total.max()} embeddings, at most {MOST} add up; add fewer"
        )
    return total


@dataclass(frozen=True, eq=False)
class Moments:
    """All that a head of moments knows of embeddings, by class: int64 `counts` (way,), `sums` and `products`.

    ``+`` and ``-`` are exact: what was added can be taken out again, such as a class by its own moments.
    """

    counts: np.ndarray
    sums: np.ndarray
    products: np.ndarray

    def __add__(self, other: "Moments") -> "Moments":
        counts = more_images(self.counts, other.counts)
        return Moments(counts, self.sums + other.sums, self.products + other.products)

    def __sub__(self, other: "Moments") -> "Moments":
        if (self.counts < other.counts).any():
            raise InputError("bad-value", "more embeddings are taken out than there are; take out less")
        parts = (self.counts, other.counts), (self.sums, other.sums), (self.products, other.products)
        return Moments(*(a - b for a, b in parts))

    def at(self, places: list[int], way: int) -> "Moments":
        """The same for `way` classes: class k is number ``places[k]`` of them."""
        counts, sums = np.zeros(way, np.int64), np.zeros((way, self.sums.shape[1]), np.int64)
        counts[places], sums[places] = self.counts, self.sums
        return Moments(counts, sums, self.products)
