"""Scatter of embeddings around means, streamed and packed: (d, d) with the lower triangle alone in use."""

from collections.abc import Iterator

import numpy as np

from tinytrain.heads.head import Batch, Batches
from tinytrain.heads.linear import MOST
from tinytrain.heads.triangle import Triangle, packed

# What `stream` measures an embedding against, and how much it counts for:
WITHIN = "within"  # the mean of its class; n / (n + 1), with n of them in its class before
AROUND_ALL = "around all"  # the mean of all; n / (n + 1), with n before
PUBLISHED = "published"  # the mean of its class, 0 if that is new; n / (n + 1), with n of all classes before
# What is left at least of an image that its own deviation explains, when that is taken out of the covariance.
LEAST_LEFT = 0.02


def stream(kernels, scatter, means, counts, batch, form: str = WITHIN) -> None:
    """Add `batch`, embeddings (n, d) with labels (n,), to a `scatter`, class `means` (way, d) and `counts`.

    Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics 4, 1962:
    in either of the first two forms the result is that of all embeddings at once, whatever their order.
    """
    whole = mean_of_all(means, counts)
    for embedding, label in zip(*batch, strict=True):
        n, seen = int(counts[label]), int(counts.sum(dtype=np.int64))
        before = n if form == WITHIN else seen
        deviation = embedding - (whole if form == AROUND_ALL else means[label])
        if before:
            kernels.add_outer(scatter, deviation[None], means.dtype.type(before / (before + 1)))
        means[label] += (embedding - means[label]) / (n + 1)
        whole += (embedding - whole) / (seen + 1)
        counts[label] = min(n + 1, MOST)


def gain_without(share: float, squared: float) -> float:
    """The inverse of a covariance S without ``share * x x^T`` is ``S^-1 + gain * u u^T`` with u = S^-1 x.

    x is the deviation of an image, and `squared` is x^T S^-1 x. Sherman and Morrison, "Adjustment of an
    inverse matrix corresponding to a change in one element of a given matrix", 1950.
    """
    return share / max(1 - share * squared, LEAST_LEFT)


def share_of_image(images: int, total: float) -> float:
    """The weight of the deviation of one of `images` of a class in a covariance that is divided by `total`.

    The deviation is that from the mean of all images of the class, which moves when the image is left out.
    """
    return images / (images - 1) / total


def mean_of_all(means: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean (d,) of all embeddings from those of classes, (way, d), that so many `counts` (way,) have."""
    whole, total = np.zeros_like(means[0]), max(1, sum(counts.tolist()))
    for mean, count in zip(means, counts.tolist(), strict=True):
        whole += mean * (count / total)
    return whole


def outer_products(kernels, scatter: np.ndarray, batches: Batches) -> Iterator[Batch]:
    """The batches; `scatter` (d, d), or packed, becomes the sum of their outer products."""
    scatter.fill(0)
    products = Triangle(kernels, scatter)
    for embeddings, labels in batches():
        products.add_outer(embeddings, 1)
        yield embeddings, labels


def keep_covariance(scatter: np.ndarray, total: float, covariance: np.ndarray) -> None:
    """Write the packed `covariance` of so many embeddings."""
    packed(scatter, covariance)
    covariance /= covariance.dtype.type(total)
