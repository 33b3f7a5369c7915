"""Classifier heads on embeddings: cosine prototypes, or shrinkage LDA. Fitted inside the arena.

Both are a linear map of the embedding scaled to length 1: ``logits = weights @ e + offsets``.
LDA: one covariance for all classes, shrunk by a fixed share to a multiple of the identity (Ledoit and
Wolf 2004 give the form; the fixed share suits a few images per class). The scatter of the mean of few
images enters its offsets, so that classes of one image would lose to those of five; a part is taken out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinytrain.kernels.rows import divide_rows

SHRINKAGE = 0.7
RIDGE = 1e-7  # added to it, for embeddings that do not vary
# Temperature as a share of how far the logit of a support image's own class lies above the others. Images
# that training has learnt by heart cannot tell how sure of others one may be, nor can single ones. Of the
# shares tried, this one had the least log loss on images never seen, of six domains that are no targets, by
# two networks, adapted or not, with 1, 2 and more shots weighed alike (trials that no command repeats).
TEMPERATURE_SHARE = 0.12
# Temperatures to choose from where images that are left out are not as often right as that share implies.
TEMPERATURES = np.geomspace(1e-4, 1e8, 61, dtype=np.float32)
NO_LEAD = 1e-4  # of the largest logit: less is rounding


@dataclass(frozen=True, eq=False)
class Head:
    """`weights` (way, d), `offsets` (way,), class `means` (way, d) of unit embeddings with `counts` (way,).

    `means` are needed to add classes; None in a head that only predicts.
    `temperature` divides the logits, so that probabilities are about as often right as they say; `left_out`
    is the leave-one-out accuracy on the support, None if every class has a single image. `factor`, for
    LDA, is the packed lower Cholesky factor of the covariance, (d * (d + 1) / 2,): what adding classes needs.
    """

    kind: str
    weights: np.ndarray
    offsets: np.ndarray
    means: np.ndarray | None
    counts: np.ndarray
    temperature: float = 1.0
    left_out: float | None = None
    factor: np.ndarray | None = None

    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        """(n, way) logits of embeddings (n, d), before the temperature."""
        unit = embeddings / np.sqrt((embeddings**2).sum(axis=1, keepdims=True) + 1e-12)
        return unit @ self.weights.T + self.offsets

    def arrays(self) -> list[np.ndarray]:
        """All values."""
        found = (self.weights, self.offsets, self.means, self.counts, self.factor)
        return [a for a in found if a is not None]

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite."""
        return all(map(all_finite, self.arrays()))

    def probabilities(self, embeddings: np.ndarray) -> np.ndarray:
        """(n, way) calibrated class probabilities."""
        return softmax(self.logits(embeddings) / self.temperature)


BLOCK = 1024  # numbers looked at together, so that what that takes does not grow with the task


def all_finite(array: np.ndarray) -> bool:
    """Whether no value is NaN or infinite."""
    flat = array.reshape(-1)
    return all(np.isfinite(flat[first : first + BLOCK]).all() for first in range(0, len(flat), BLOCK))


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@dataclass
class HeadArrays:
    """Arena arrays: weights (way, d), offsets (way,), means (way, d), counts (way,), scatter (d, d)."""

    weights: np.ndarray
    offsets: np.ndarray
    means: np.ndarray
    counts: np.ndarray
    scatter: np.ndarray | None


Batch = tuple[np.ndarray, np.ndarray]  # embeddings (n, d) of length 1, labels (n,)
Batches = Callable[[], Iterable[Batch]]


def fit_head(
    kind: str, kernels, arrays: HeadArrays, every_view: Batches, clean: Batches, images: np.ndarray
) -> Head:
    """Fit a head to (embeddings, labels) batches of all views, and judge it by those of the clean images.

    Embeddings have length 1 and are only read; a batch may be overwritten by the next one. `images` is the
    number of clean images per class, (way,). The returned head's weights, offsets and means are those
    of `arrays`.
    """
    if kind == "lda":
        arrays.scatter.fill(0)
        every_view = partial(_with_scatter, kernels, arrays.scatter, every_view)
    class_means(kernels, arrays.means, arrays.counts, every_view())
    np.copyto(arrays.weights, arrays.means)
    arrays.offsets.fill(0)
    excess = 0.0
    if kind == "lda":
        _solve_lda(kernels, arrays)
        excess = excess_of_means(kernels, arrays.scatter)
        _set_lda_offsets(arrays, excess, images)
    else:
        kernels.normalize_rows(arrays.weights)
    judged = _judged(kind, kernels, arrays, clean, images, excess)
    return Head(kind, arrays.weights, arrays.offsets, arrays.means, arrays.counts.astype(np.int32), *judged)


def class_means(kernels, means: np.ndarray, counts: np.ndarray, batches: Iterable[Batch]) -> None:
    """Means (way, d) of the embeddings of each class, and how many there are, (way,)."""
    means.fill(0)
    counts.fill(0)
    for embeddings, labels in batches:
        kernels.class_sums(means, counts, embeddings, labels)
    divide_rows(means, counts, out=means)


def _with_scatter(kernels, scatter: np.ndarray, batches: Batches) -> Iterator[Batch]:
    """The batches, of which the products go to `scatter` (d, d)."""
    for embeddings, labels in batches():
        kernels.add_outer(scatter, embeddings, np.float32(1))
        yield embeddings, labels


def _set_lda_offsets(arrays: HeadArrays, excess: float, images) -> None:
    """One class after another: the products of all of them take as many bytes as the weights."""
    rows = zip(arrays.weights, arrays.means, images, strict=True)
    for k, (weights, mean, count) in enumerate(rows):
        arrays.offsets[k] = lda_offsets(weights, mean, excess, count)


def lda_offsets(weights: np.ndarray, means: np.ndarray, excess: float, images) -> np.ndarray:
    """-1/2 (mean^T S^-1 mean - excess / n) for every row of S^-1 means, n the `images` of its class.

    The mean of n images is that of the class and some of their scatter, so that the product comes out
    larger by trace(S^-1 C) / n, C the covariance within classes (Moran and Murphy correct it so, "A closer
    look at two alternative methods of statistical discrimination", Applied Statistics 28, 1979). With C as
    measured on the images themselves this is about half of it where they are few. The whole of it was no
    better on domains that are no targets (trials that no command repeats): one image says less about its
    class than five.
    """
    return -0.5 * ((weights * means).sum(axis=-1) - excess / images)


def excess_of_means(kernels, factor: np.ndarray) -> float:
    """trace(S^-1 C) from the Cholesky factor (d, d) of S = (1 - SHRINKAGE) C + ridge * I.

    The ridge follows from trace(S), which is trace(C) + d * RIDGE.
    """
    d = len(factor)
    trace = sum(float(np.square(row[: i + 1], dtype=np.float64).sum()) for i, row in enumerate(factor))
    inverse = np.empty(d, np.float32)
    kernels.inverse_diagonal(inverse, factor)
    ridge = SHRINKAGE * (trace / d - RIDGE) + RIDGE
    return max(0.0, (d - ridge * float(inverse.sum())) / (1 - SHRINKAGE))


def _solve_lda(kernels, arrays: HeadArrays) -> None:
    """weights = S^-1 mean, S the shrunk covariance within classes; its factor replaces the scatter."""
    scatter, means = arrays.scatter, arrays.means
    for k in range(len(means)):
        kernels.add_outer(scatter, means[k : k + 1], -arrays.counts[k])
    total = float(arrays.counts.sum())
    diagonal = scatter.reshape(-1)[:: len(scatter) + 1]
    ridge = SHRINKAGE * float(diagonal.sum()) / total / len(scatter) + RIDGE
    np.multiply(scatter, np.float32((1 - SHRINKAGE) / total), out=scatter)
    diagonal += np.float32(ridge)
    kernels.cholesky(scatter)
    kernels.cholesky_solve(arrays.weights, scatter)


def _judged(
    kind: str, kernels, arrays: HeadArrays, clean: Batches, images, excess: float
) -> tuple[float, float | None]:
    """Temperature, and leave-one-out accuracy: every clean image with its own share taken out of its mean.

    All views of an image are taken to lie where its clean image lies; the covariance stays.
    """
    lead, largest, seen, right, judged = 0.0, 0.0, 0, 0, 0
    confidence = np.zeros(len(TEMPERATURES))
    for embeddings, labels in clean():
        for e, label in zip(embeddings, labels, strict=True):
            logits = arrays.weights @ e + arrays.offsets
            others = (float(logits.sum()) - float(logits[label])) / (len(logits) - 1)
            lead, seen = lead + float(logits[label]) - others, seen + 1
            largest = max(largest, float(np.abs(logits).max()))
            if images[label] < 2:
                continue
            logits[label] = _left_out_logit(kind, kernels, arrays, e, label, images[label], excess)
            right, judged = right + int(logits.argmax() == label), judged + 1
            confidence += _confidence(logits)
    left_out = right / judged if judged else None
    if not lead / seen > NO_LEAD * largest:
        return float(TEMPERATURES[-1]), left_out  # nothing tells the classes apart
    # As sure of the left-out images as they are often right, which by chance they are once in `way`.
    modest = TEMPERATURES[confidence <= max(right, judged / len(arrays.counts))]
    least = modest[0] if len(modest) else TEMPERATURES[-1]
    return max(TEMPERATURE_SHARE * lead / seen, float(least) if judged else 0.0), left_out


def _confidence(logits: np.ndarray) -> np.ndarray:
    """Probability of the likeliest class at each of TEMPERATURES, as many at a time as BLOCK holds."""
    some = max(1, BLOCK // len(logits))
    parts = (TEMPERATURES[first : first + some, None] for first in range(0, len(TEMPERATURES), some))
    return np.concatenate([softmax(logits / part).max(axis=1) for part in parts])


def packed(factor: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Lower triangle of (d, d), row by row, as (d * (d + 1) / 2,), in `out` if that is given."""
    return np.concatenate([row[: i + 1] for i, row in enumerate(factor)], out=out)


def unpacked(values: np.ndarray) -> np.ndarray:
    """The (d, d) array that `packed` took the lower triangle of; zero above the diagonal."""
    size = int((np.sqrt(8 * len(values) + 1) - 1) / 2)
    factor, start = np.zeros((size, size), np.float32), 0
    for i, row in enumerate(factor):  # row by row: the indices of a triangle take four times its memory
        row[: i + 1] = values[start : start + i + 1]
        start += i + 1
    return factor


def _left_out_logit(
    kind: str, kernels, arrays: HeadArrays, e: np.ndarray, label: int, count: int, excess: float
) -> float:
    """Logit of unit embedding `e` for its own class of `count` images, if it were not one of them."""
    share = count / (count - 1)
    mean = arrays.means[label] * share - e * (share - 1)
    if kind == "lda":
        solved = mean[None].astype(np.float32)
        kernels.cholesky_solve(solved, arrays.scatter)
        return solved[0] @ e + lda_offsets(solved[0], mean, excess, count - 1)
    return mean @ e / np.sqrt(mean @ mean + 1e-12)
