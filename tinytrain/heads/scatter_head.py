"""Linear heads whose weights follow from moments: class means, and one scatter of all embeddings."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tinytrain.heads.head import FITTING, UPDATING, HeadBuffer, HeadMethod, Support
from tinytrain.heads.linear import LinearHead, calibrated, class_means, linear_buffers, uncalibrated
from tinytrain.heads.moments import (
    MOST,
    NARROW,
    UNIT,
    Moments,
    dtype_for,
    more_images,
    products_of,
    sums_of,
    write_means,
)
from tinytrain.heads.scatter import (
    AROUND_ALL,
    WITHIN,
    Woodbury,
    add_moments,
    deviations,
    mean_of_all,
    restore,
    scatter_of_sums,
)
from tinytrain.heads.triangle import Triangle, diagonal_places

SCATTER = "scatter matrix"


def are_few(embeddings: int, size: int) -> bool:
    """Whether so many rows of `size` values take no more than the lower triangle of their scatter."""
    return 2 * embeddings <= size + 1


@dataclass(frozen=True, eq=False)
class ScatterHead(LinearHead):
    """`sums` (way, d) and `products` (d * (d + 1) / 2,) of all embeddings, as `heads.moments` has them.

    Of few embeddings there are these themselves, rounded: `embeddings` (n, d) with their `labels` (n,).
    """

    sums: np.ndarray | None = None
    products: np.ndarray | None = None
    embeddings: np.ndarray | None = None
    labels: np.ndarray | None = None

    KEPT: ClassVar = ("weights", "offsets", "sums", "products", "embeddings", "labels")

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        """All embeddings, new and old, count as much as each other; every class may change."""
        added = np.bincount(labels, minlength=len(self.counts))
        self.counts[:] = more_images(self.counts, added)
        rows = np.ascontiguousarray(embeddings, self.weights.dtype)
        kernels.add_products(self.products, rows)
        kernels.add_rounded(self.sums, rows, labels.astype(np.int32))
        self.follow_sums(kernels)

    def follow_sums(self, kernels) -> None:
        """Write weights and offsets by `sums` and `products`."""
        scatter = np.empty(self.products.shape, self.weights.dtype)
        self.method.follow(kernels, self, self.means, scatter, self.images)

    @property
    def means(self) -> np.ndarray | None:
        """Those of the classes, (way, d); None if the head only answers."""
        if (sums := self._sums) is None:
            return None
        found = np.zeros_like(self.weights)
        write_means(sums, self.counts, found)
        return found

    @property
    def _sums(self) -> np.ndarray | None:
        few = self.embeddings is not None
        return sums_of(self.embeddings, self.labels, len(self.counts)) if few else self.sums

    @property
    def moments(self) -> Moments:
        """The moments of all embeddings so far."""
        products = self.products if self.embeddings is None else products_of(self.embeddings)
        return Moments(*(a.astype(np.int64) for a in (self.counts, self._sums, products)))

    @property
    def total(self) -> int:
        """Number of embeddings so far."""
        return int(self.counts.sum(dtype=np.int64))

    def for_any_number(self) -> "ScatterHead":
        if self.embeddings is None:
            return self
        moments = self.moments
        return replace(self, sums=moments.sums, products=moments.products, embeddings=None, labels=None)

    def stored(self) -> "ScatterHead":
        if self.products is None or self.products.dtype.itemsize == 4 or self.total > NARROW:
            return self
        return replace(self, sums=self.sums.astype(np.int32), products=self.products.astype(np.int32))

    def for_delta(self, arrays: dict[str, np.ndarray]) -> "ScatterHead":
        if self.embeddings is not None:
            restore(self.embeddings, self.labels, arrays["means"], self.counts, self.method.form)
        return self

    def without_class(self, label: int, way: int) -> "ScatterHead":
        """Of few embeddings those of the class go. Of many, the others keep the scatter that all have."""
        rest = super().without_class(label, way)
        if self.embeddings is not None:
            kept = self.labels != label
            labels = self.labels[kept] - (self.labels[kept] > label).astype(np.int32)
            return replace(rest, embeddings=self.embeddings[kept], labels=labels)
        return replace(rest, products=self.method.shrunk(self.moments, rest).astype(self.products.dtype))

    def problem(self) -> str | None:
        found = super().problem()
        if found:
            return found
        if self.embeddings is not None:
            way = len(self.counts)
            in_range = self.labels.min(initial=0) >= 0 and self.labels.max(initial=0) < way
            if not in_range or (np.bincount(self.labels, minlength=way) != self.counts).any():
                return "head.labels must be those of as many embeddings as head.counts says"
            return None if np.abs(self.embeddings).max() < 2 else "head.embeddings must have length 1"
        if self.products is not None:
            most, sums = 2 * UNIT * self.total, (self.sums, self.products)
            if max(a.max() for a in sums) > most or min(a.min() for a in sums) < -most:
                return "head.sums and head.products must be those of embeddings of length 1"
            if self.products[diagonal_places(self.embedding_size)].min() < 0:
                return "the diagonal of head.products must not be below 0"
        return None


class ScatterMethod(HeadMethod):
    """A method with a `ScatterHead`; `form`: what embeddings are measured against.

    With S, the matrix of the method, ``solver.solve(x)`` replaces each row of x (k, d) by S^-1 row.
    """

    head = ScatterHead
    few_by = "embeddings"
    form = WITHIN

    def buffers(self, way: int, size: int) -> tuple[HeadBuffer, ...]:
        return self.sum_form(way, size, MOST)

    def buffers_for(self, way: int, size: int, embeddings: int) -> tuple[HeadBuffer, ...]:
        few = are_few(embeddings, size)
        return (self.few_form if few else self.sum_form)(way, size, embeddings)

    def sum_form(self, way: int, size: int, embeddings: int) -> tuple[HeadBuffer, ...]:
        """Every array of a head that keeps the sums of so many embeddings."""
        triangle, dtype = (size * (size + 1) // 2,), dtype_for(embeddings)
        return (
            *linear_buffers(way, size, FITTING),
            HeadBuffer("sums", (way, size), UPDATING, dtype),
            HeadBuffer("products", triangle, UPDATING, dtype),
            HeadBuffer(SCATTER, triangle, FITTING),
        )

    def few_form(self, way: int, size: int, embeddings: int) -> tuple[HeadBuffer, ...]:
        """Every array of a head that keeps the embeddings in place of their sums."""
        return (
            *linear_buffers(way, size, FITTING),
            HeadBuffer("embeddings", (embeddings, size), UPDATING),
            HeadBuffer("labels", (embeddings,), UPDATING, "int32"),
            HeadBuffer("gram", (embeddings, embeddings), FITTING),
        )

    def tensors_like(self, way: int, size: int, found) -> tuple[HeadBuffer, ...]:
        products = found.get("products")
        if products is None or products.dtype != np.int32:
            return super().tensors_like(way, size, found)
        return tuple(b for b in self.sum_form(way, size, NARROW) if b.lifetime != FITTING)

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> ScatterHead:
        means, counts = arrays["means"], arrays["class counts"]
        if "embeddings" in arrays:
            rows = deviations(kernels, arrays, support, self.form)
            head = uncalibrated(self, arrays, support)
            solver = Woodbury(kernels, arrays["gram"], rows, *self.few_factors(rows))
            self.weigh(head, means, solver, support.images)
        else:
            products, sums = arrays["products"], arrays["sums"]
            products.fill(0)
            sums.fill(0)
            class_means(kernels, means, counts, add_moments(kernels, products, sums, support.every_view()))
            write_means(sums, counts, means)
            head = uncalibrated(self, arrays, support)
            solver = self.follow(kernels, head, means, arrays[SCATTER], support.images)
        return calibrated(head, means, support, **self.left_out(head, means, support, solver))

    def follow(self, kernels, head: ScatterHead, means: np.ndarray, scatter: np.ndarray, images: np.ndarray):
        """Write weights and offsets by the sums of `head` and its `means`; returns what solves with S.

        `scatter` (d * (d + 1) / 2,) is room for the factor of S, which the result reads.
        """
        triangle = scatter_of_sums(kernels, head.products, means, head.counts, scatter, self.form)
        solver = self.factored(triangle, float(head.total))
        self.weigh(head, means, solver, images)
        return solver

    def of_moments(self, kernels, moments: Moments, **facts) -> ScatterHead:
        """The head of all embeddings with these `moments`; `facts` are other fields of it."""
        way, size, total = *moments.sums.shape, int(moments.counts.sum())
        fields = {b.name: b.allocate() for b in self.sum_form(way, size, total) if b.lifetime != FITTING}
        head = self.head(self, **fields, **facts)
        head.counts[:], head.sums[:], head.products[:] = moments.counts, moments.sums, moments.products
        head.follow_sums(kernels)
        return head

    def current(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Older deltas have class means, and a covariance or the deviations from these."""
        means, counts, weights = (found.get(name) for name in ("means", "counts", "weights"))
        if means is None or counts is None or weights is None or not _are_means(means, counts, weights):
            return found
        size, total = means.shape[1], int(counts.sum(dtype=np.int64))
        scatter, rows = found.get("covariance"), found.get("deviations")
        if rows is not None and rows.shape == (total, size):
            rows = rows.astype(float)
            scatter = (rows.T @ rows)[np.tril_indices(size)] / total
        if scatter is None or scatter.shape != (size * (size + 1) // 2,) or not np.abs(scatter).max() <= 2:
            return found
        exact, dtype = means.astype(float), dtype_for(total)
        rest = {name: a for name, a in found.items() if name not in ("means", "covariance", "deviations")}
        products = (scatter * total + self._around(exact, counts)) * UNIT
        sums = exact * (counts[:, None] * float(UNIT))
        return rest | {"sums": np.rint(sums).astype(dtype), "products": np.rint(products).astype(dtype)}

    def shrunk(self, moments: Moments, rest: ScatterHead) -> np.ndarray:
        """The products of `rest`, whose embeddings have the covariance of all those with these `moments`."""
        means, kept = np.zeros(moments.sums.shape), np.zeros(rest.sums.shape)
        write_means(moments.sums, moments.counts, means)
        write_means(rest.sums, rest.counts, kept)
        share = rest.total / float(moments.counts.sum())
        within = moments.products / UNIT - self._around(means, moments.counts)
        return np.rint((within * share + self._around(kept, rest.counts)) * UNIT)

    def _around(self, means: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """What the means add to the products of the embeddings, (d * (d + 1) / 2,) float64."""
        if self.form == AROUND_ALL:
            means, counts = mean_of_all(means, counts)[None], counts.sum(keepdims=True)
        return ((means * counts[:, None]).T @ means)[np.tril_indices(means.shape[1])]

    @abstractmethod
    def factored(self, scatter: Triangle, total: float):
        """What solves with S; `scatter`, which is that of so many embeddings, becomes its factor."""

    @abstractmethod
    def few_factors(self, rows: np.ndarray) -> tuple[float, float]:
        """Scale and ridge of `Woodbury` for the deviations `rows` (n, d) of few embeddings."""

    @abstractmethod
    def weigh(self, head: ScatterHead, means: np.ndarray, solver, images: np.ndarray) -> None:
        """Write weights and offsets of all classes from their `means`, of so many `images` (way,) each."""

    @abstractmethod
    def left_out(self, head: ScatterHead, means: np.ndarray, support: Support, solver) -> dict[str, Callable]:
        """How an image is left out: arguments of `linear.calibrated`."""


def _are_means(means: np.ndarray, counts: np.ndarray, weights: np.ndarray) -> bool:
    """Whether `means` of so many embeddings, read from a file, are what they should be."""
    fit = weights.ndim == 2 and means.shape == weights.shape and counts.shape == means.shape[:1]
    kinds = means.dtype == np.float32 and counts.dtype == np.int32
    return fit and kinds and means.size > 0 and counts.min() >= 1 and bool(np.abs(means).max() <= 2)
