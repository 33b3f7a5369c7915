"""Linear heads whose weights follow from class means and from one scatter of all embeddings."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.heads.head import FITTING, UPDATING, HeadBuffer, HeadMethod, Support
from tinytrain.heads.linear import LinearHead, calibrated, linear_buffers, uncalibrated
from tinytrain.heads.scatter import (
    WITHIN,
    Woodbury,
    deviations,
    scatter_around,
    scatter_of,
    stream,
)
from tinytrain.heads.triangle import Triangle, diagonal_places, packed, unpacked

SCATTER = "scatter matrix"


def are_few(embeddings: int, size: int) -> bool:
    """Whether so many rows of `size` values take no more than the lower triangle of their scatter."""
    return 2 * embeddings <= size + 1


@dataclass(frozen=True, eq=False)
class ScatterHead(LinearHead):
    """`deviations` (n, d), if there are any, are the n embeddings that it was fitted to without their means.

    For few of them that is less than what an update keeps of the scatter.
    """

    deviations: np.ndarray | None = None

    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        """All embeddings, new and old, count as much as each other; every class may change."""
        scatter = self._scatter(kernels)
        stream(kernels, scatter, self.means, self.counts, (embeddings, labels), self.method.form)
        self._follow(kernels, scatter)

    @abstractmethod
    def _follow(self, kernels, scatter: np.ndarray) -> None:
        """Everything that follows from `scatter`, which is overwritten, and the means."""

    @abstractmethod
    def _scatter(self, kernels) -> np.ndarray:
        """The scatter (d, d) of all embeddings so far."""

    @property
    def total(self) -> int:
        """Number of embeddings so far."""
        return int(self.counts.sum(dtype=np.int64))


@dataclass(frozen=True, eq=False)
class CovarianceHead(ScatterHead):
    """`covariance` (d * (d + 1) / 2,) is the scatter divided by the number of embeddings, packed.

    Being a mean it stays as exact in a long stream as it was.
    """

    covariance: np.ndarray | None = None

    def for_any_number(self) -> "CovarianceHead":
        if self.deviations is None:
            return self
        covariance = packed(scatter_of(self.deviations) / self.total).astype(self.deviations.dtype)
        return replace(self, deviations=None, covariance=covariance)

    def _scatter(self, kernels) -> np.ndarray:
        scatter = unpacked(self.covariance)
        scatter *= scatter.dtype.type(self.total)
        return scatter

    def _follow(self, kernels, scatter: np.ndarray) -> None:
        keep_covariance(scatter, self.total, self.covariance)
        solver = self.method.factored(Triangle(kernels, scatter), self.total)
        self.method.weigh(self, solver, self.counts / self.views)

    def problem(self) -> str | None:
        places = diagonal_places(self.embedding_size)
        if self.covariance is not None and self.covariance[places].min() < 0:
            return super().problem() or "the diagonal of head.covariance must not be below 0"
        return super().problem()


class ScatterMethod(HeadMethod):
    """A method with a `ScatterHead`; `form`: what embeddings are measured against.

    With S, the matrix of the method, ``solver.solve(x)`` replaces each row of x (k, d) by S^-1 row.
    """

    head = CovarianceHead
    few_by = "deviations"
    form = WITHIN

    def buffers(self, way: int, size: int) -> tuple[HeadBuffer, ...]:
        covariance = HeadBuffer("covariance", (size * (size + 1) // 2,), UPDATING)
        return (*linear_buffers(way, size), covariance, HeadBuffer(SCATTER, (size, size), FITTING))

    def buffers_for(self, way: int, size: int, embeddings: int) -> tuple[HeadBuffer, ...]:
        few = are_few(embeddings, size)
        return self.few_form(way, size, embeddings) if few else self.buffers(way, size)

    def few_form(self, way: int, size: int, embeddings: int) -> tuple[HeadBuffer, ...]:
        """Every array of a head that keeps the embeddings in place of their scatter."""
        return (
            *linear_buffers(way, size),
            HeadBuffer("deviations", (embeddings, size), UPDATING),
            HeadBuffer("gram", (embeddings, embeddings), FITTING),
            HeadBuffer("labels of rows", (embeddings,), FITTING, "int32"),
        )

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> ScatterHead:
        if "deviations" in arrays:
            rows = deviations(kernels, arrays, support, self.form)
            solver = Woodbury(kernels, arrays["gram"], rows, *self.few_factors(rows))
        else:
            scatter, means, counts = arrays[SCATTER], arrays["means"], arrays["class counts"]
            triangle = scatter_around(kernels, scatter, means, counts, support.every_view, self.form)
            if "covariance" in arrays:
                keep_covariance(scatter, float(counts.sum()), arrays["covariance"])
            solver = self.factored(triangle, float(counts.sum()))
        head = uncalibrated(self, arrays, support)
        self.weigh(head, solver, support.images)
        return calibrated(head, support, **self.left_out(head, support, solver))

    @abstractmethod
    def factored(self, scatter: Triangle, total: float):
        """What solves with S; `scatter`, which is that of so many embeddings, becomes its factor."""

    @abstractmethod
    def few_factors(self, rows: np.ndarray) -> tuple[float, float]:
        """Scale and ridge of `Woodbury` for the deviations `rows` (n, d) of few embeddings."""

    @abstractmethod
    def weigh(self, head: ScatterHead, solver, images: np.ndarray) -> None:
        """Write the weights and offsets of all classes from their means, of so many `images` (way,) each."""

    @abstractmethod
    def left_out(self, head: ScatterHead, support: Support, solver) -> dict[str, Callable]:
        """How an image is left out: arguments of `linear.calibrated`."""


def keep_covariance(scatter: np.ndarray, total: float, covariance: np.ndarray) -> None:
    """Write the packed `covariance` of so many embeddings."""
    packed(scatter, covariance)
    covariance /= covariance.dtype.type(total)
