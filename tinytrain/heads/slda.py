"""Streaming LDA (Deep SLDA): class means and the covariance within classes follow every image of a stream.

After Hayes and Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis", CVPR
workshops 2020. The published update weighs an outer product by the number of all images seen; here it is
weighed by those of its class, and the result is that of LDA fitted to all images at once, in any order.
`PUBLISHED_SLDA` is the same code with the published weights, shrinkage and offsets.
"""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.heads.head import Support
from tinytrain.heads.lda import Factored, Lda, solve_classes
from tinytrain.heads.linear import calibrated
from tinytrain.heads.scatter import PUBLISHED, keep_covariance
from tinytrain.heads.scatter_head import CovarianceHead, ScatterMethod
from tinytrain.heads.triangle import Triangle


@dataclass(frozen=True, eq=False)
class SldaHead(CovarianceHead):
    def _solve(self, kernels, scatter: np.ndarray) -> None:
        keep_covariance(scatter, self.total, self.covariance)
        solve_classes(self, self.method.factored(Triangle(kernels, scatter), self.total))


class Slda(Lda):
    """LDA of the clean images alone, as a stream has no other ones; its delta keeps the covariance itself."""

    name, head = "slda", SldaHead
    shrinkage = 0.7
    sees_every_view = False
    buffers = ScatterMethod.buffers


class PublishedSlda(Slda):
    """As published: it depends on the order of images, and a new class starts from a mean of 0."""

    name = "slda-published"
    shrinkage = 1e-4
    any_order = False
    form = PUBLISHED

    def buffers_for(self, way: int, size: int, embeddings: int):
        return self.buffers(way, size)

    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> SldaHead:
        for name in ("weights", "offsets", "means", "class counts", "covariance"):
            arrays[name].fill(0)
        counts = np.zeros(len(arrays["class counts"]), np.int32)
        tensors = {name: arrays[name] for name in ("weights", "offsets", "means", "covariance")}
        head = SldaHead(self, counts=counts, **tensors)
        for embeddings, labels in support.every_view():
            head.update(kernels, embeddings, labels)
        arrays["class counts"][:] = counts
        found = calibrated(self, arrays, support, leave_out=lambda logits, e, label: None)
        return replace(head, temperature=found.temperature, left_out=found.left_out, limit=found.limit)

    def factored(self, scatter: Triangle, total: float) -> Factored:
        scatter.scale((1 - self.shrinkage) / total)
        scatter.add_to_diagonal(self.shrinkage)
        scatter.factorize()
        return Uncorrected(scatter, self.shrinkage)


class Uncorrected(Factored):
    """Without the correction for the noise of means of few images, which is not in the published offsets."""

    def excess(self) -> float:
        return 0.0


METHOD, PUBLISHED_SLDA = Slda(), PublishedSlda()
