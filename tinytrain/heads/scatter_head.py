"""Linear heads whose weights follow from class means and from one scatter of all embeddings."""

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.heads.few import are_few, few_buffers, scatter_of
from tinytrain.heads.head import FITTING, UPDATING, HeadBuffer, HeadMethod
from tinytrain.heads.linear import LinearHead, linear_buffers
from tinytrain.heads.scatter import WITHIN, stream
from tinytrain.heads.triangle import diagonal_places, packed, unpacked

SCATTER = "scatter matrix"


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
        self._solve(kernels, scatter)

    @abstractmethod
    def _scatter(self, kernels) -> np.ndarray:
        """The scatter (d, d) of all embeddings so far."""

    @abstractmethod
    def _solve(self, kernels, scatter: np.ndarray) -> None:
        """Everything that follows from `scatter`, which is overwritten, and the means."""

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

    def problem(self) -> str | None:
        if self.covariance is None:
            return super().problem()
        negative = self.covariance[diagonal_places(self.embedding_size)].min() < 0
        wrong = "the diagonal of head.covariance must not be below 0" if negative else None
        return super().problem() or wrong


class ScatterMethod(HeadMethod):
    """A method whose heads are such ones; `form` says what `stream` measures embeddings against."""

    incremental = any_order = True
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
        return (*linear_buffers(way, size), *few_buffers(size, embeddings))


def with_scatter(head: ScatterHead, arrays: dict[str, np.ndarray]) -> ScatterHead:
    """`head` with what it keeps of the scatter, in whichever form `arrays` have it."""
    return replace(head, **{name: arrays[name] for name in ("deviations", "covariance") if name in arrays})
