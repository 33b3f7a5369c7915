"""Classifier heads on embeddings: what a method declares before it is fitted, and the fitted value.

A method declares its buffers for a task, so that a plan can place them before anything runs, and is fitted
inside them. The fitted head answers for embeddings (`logits`, `verdict`), learns from more of them in the
same bytes (`extended`, then `update`), and is stored in a delta (`tensors`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple

import numpy as np

from tinytrain.base.errors import AnswerError
from tinytrain.heads.calibration import BLOCK, softmax
from tinytrain.heads.out_of_distribution import UNSURE, Limit

# When a buffer of a head holds a value:
FITTING = "fitting"  # while the head is fitted, and until `for_delta` has read it
ANSWERING = "answering"  # from then on: logits are computed from it
UPDATING = "updating"  # as long, if the head is kept: updates need it, answers do not
OUTSIDE = "outside"  # as ANSWERING, but few bytes per class, which `fit` allocates outside the arena
LIFETIMES = (FITTING, ANSWERING, UPDATING, OUTSIDE)
FIT_TAKES = (FITTING, ANSWERING, UPDATING)  # the buffers that `HeadMethod.fit` is given

# What a verdict may say of an embedding:
IDENTIFIED = "identified"  # an image of the class that is named, as far as the support says
UNCERTAIN = "uncertain"  # of one of the classes, but another one than is named more likely than not
UNKNOWN = "unknown"  # of none of the classes
STATES = (IDENTIFIED, UNCERTAIN, UNKNOWN)

Batch = tuple[np.ndarray, np.ndarray]  # embeddings (n, d) of length 1, labels (n,)
Batches = Callable[[], Iterable[Batch]]


@dataclass(frozen=True)
class HeadBuffer:
    """An array that a method needs, declared before it is fitted; `lifetime` is one of LIFETIMES."""

    name: str
    shape: tuple[int, ...]
    lifetime: str
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def allocate(self, byte: int = 0) -> np.ndarray:
        """An array of its own, every byte of it `byte`; 0xFF is NaN in every float."""
        return np.full(self.nbytes, byte, np.uint8).view(self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Support:
    """What a head is fitted to: batches of `every_view` (only the clean one unless the method asks for more).

    `clean` are those of the clean images alone, of which there are `images` (way,) per class. Embeddings
    have length 1 and are only read; a batch may be overwritten by the next one. `steps` of training have seen
    the images before. ``judge(logits, label)`` is told what a linear head without it says of a clean image.
    `background` is the label of what is never an answer.
    """

    every_view: Batches
    clean: Batches
    images: np.ndarray
    steps: int = 0
    judge: Callable[[np.ndarray, int], None] | None = None
    background: int | None = None

    def each(self) -> Iterator[tuple[np.ndarray, int]]:
        """The clean images one by one: embedding (d,) and label."""
        for embeddings, labels in self.clean():
            yield from zip(embeddings, labels.tolist(), strict=True)

    def write_mean(self, mean: np.ndarray) -> int:
        """Write the mean of the clean images to `mean` (1, d); returns their number."""
        mean.fill(0)
        for embeddings, _ in self.clean():
            mean += embeddings.sum(axis=0)
        mean /= (count := int(self.images.sum()))
        return count


class HeadMethod(ABC):
    """A way to make a head. A method of one's own is checked by `pipeline.head_conformance.check_head`."""

    name: str  # in recipes and deltas
    head: type["Head"]  # what `fit` returns
    sized_by = "weights"  # the tensor whose last axis is the embedding's
    sees_every_view = False  # fitted to augmented views too, not to the clean images alone
    passes = 1  # of `fit` over the clean images or every view; calibration is not counted
    separate_classes = False  # in every tensor, the row of a class depends on its own embeddings alone
    least_classes = 2  # of a task; 1: the head can reject images although there is no second class
    limited = False  # all logits are low for an image that is like none of the classes: a limit rejects it
    few_by: str | None = None  # a tensor with a row per embedding, which only the form for few of them has

    @abstractmethod
    def buffers(self, way: int, size: int) -> tuple[HeadBuffer, ...]:
        """Every array of a head for `way` classes and any number of embeddings of `size` values.

        Updates keep this form (`Head.extended`).
        """

    def buffers_for(self, way: int, size: int, embeddings: int) -> tuple[HeadBuffer, ...]:
        """Every array of a head that is fitted to this number of `embeddings`, all views counted.

        A method with a smaller form for few embeddings declares it here, and `fit` sees from its arrays which
        form it gets. The tensor `few_by` of the smaller form has a row for each embedding.
        """
        return self.buffers(way, size)

    @abstractmethod
    def fit(self, kernels, arrays: dict[str, np.ndarray], support: Support) -> "Head":
        """The head of `support`, whose tensors are those of `arrays`.

        `arrays` has the buffers of FIT_TAKES by name, those of `buffers_for` the embeddings that `support`
        has; their content is arbitrary.
        """

    def tensors(self, way: int, size: int, embeddings: int | None = None) -> tuple[HeadBuffer, ...]:
        """The buffers that a delta stores; None: in the form for any number of embeddings."""
        form = self.buffers(way, size) if embeddings is None else self.buffers_for(way, size, embeddings)
        return tuple(b for b in form if b.lifetime != FITTING)

    def current(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The tensors of a head, by name, in a form of today, if an older delta has them in another.

        What is in neither is left as it is: whoever reads it refuses it.
        """
        return found

    def tensors_like(self, way: int, size: int, found: Mapping[str, np.ndarray]) -> tuple[HeadBuffer, ...]:
        """The tensors of a head in the form that the arrays `found`, by name, have."""
        rows = found.get(self.few_by) if self.few_by else None
        return self.tensors(way, size, None if rows is None or not rows.ndim else len(rows))


@dataclass(frozen=True, eq=False)
class Head(ABC):
    """A fitted head of `method`; every field of it that is an array is one of the tensors of a delta.

    `temperature` divides the logits, so that a probability is about how often an answer is right; `left_out`
    is the leave-one-out accuracy on the support, None if every class has a single image. `views` is the
    number of embeddings (of the clean image and of augmented ones) that stand for one image. `limit` says
    which images belong to none of the classes, None if the head cannot tell.
    """

    method: HeadMethod
    _: KW_ONLY
    temperature: float = 1.0
    left_out: float | None = None
    views: int = 1
    limit: Limit | None = None

    @abstractmethod
    def logits(self, embeddings: np.ndarray) -> np.ndarray:
        """(n, way) logits of embeddings (n, d) of any length, before the temperature."""

    @abstractmethod
    def update(self, kernels, embeddings: np.ndarray, labels: np.ndarray) -> None:
        """Learn from one embedding or more, (n, d) of length 1, with their labels (n,).

        Writes to the tensors of the head, which must be one that `extended` returned.
        """

    @property
    def kind(self) -> str:
        return self.method.name

    @property
    def embedding_size(self) -> int:
        return self.tensors()[self.method.sized_by].shape[-1]

    def tensors(self) -> dict[str, np.ndarray]:
        """All values by name; those that only updates need are not in a head that only answers."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def arrays(self) -> list[np.ndarray]:
        """All values."""
        return list(self.tensors().values())

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite."""
        return all(map(all_finite, self.arrays()))

    def problem(self) -> str | None:
        """Why values read from a file cannot be a head of this method although their shapes fit, or None."""
        return None

    @property
    def tells_strangers(self) -> bool:
        """Whether the head can reject images. If not, every verdict is IDENTIFIED.

        It needs a limit, or a `state` of its own.
        """
        return self.limit is not None or type(self).state is not Head.state

    def probabilities(self, embeddings: np.ndarray) -> np.ndarray:
        """(n, way) calibrated class probabilities. Raises AnswerError if one is no number."""
        return self._answers(embeddings)[1]

    def _answers(self, embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The logits, and the `probabilities`."""
        with np.errstate(all="ignore"):  # one line says it
            logits = self.logits(embeddings)
            found = softmax(logits / self.temperature)
        if not all_finite(found):
            raise _no_answer()
        return logits, found

    def verdict(self, embedding: np.ndarray, reject: float | None = None) -> "HeadVerdict":
        """What an embedding (d,) shows; rejected if the confidence in that is below `reject`."""
        (logits,), (probabilities,) = self._answers(embedding[None])
        label = int(probabilities.argmax())
        confidence = float(probabilities[label])
        rejected = reject is not None and confidence < reject
        nothing = self.limit is not None and label == self.limit.background
        state = UNKNOWN if nothing else self.state(embedding, logits, confidence)
        return HeadVerdict(label, confidence, rejected, probabilities, state)

    def state(self, embedding: np.ndarray, logits: np.ndarray, confidence: float) -> str:
        """Which of STATES an embedding (d,) is in: these are its `logits` (way,) and the `confidence` in the
        likeliest class.

        A head without a limit says IDENTIFIED of everything.
        """
        if self.limit is None:
            return IDENTIFIED
        if not self.limit.admits(logits):
            return UNKNOWN
        return IDENTIFIED if confidence >= UNSURE else UNCERTAIN

    def normal(self) -> "Normal | None":
        """What images of the only class score; None if there are several, or if the head has no score."""
        return None

    def stored(self) -> "Head":
        """The head as a file holds it: the same values, in as few bytes as they take."""
        return self

    def for_any_number(self) -> "Head":
        """The head in the form that its method declares for any number of embeddings."""
        return self

    def extended(self, way: int) -> "Head":
        """A copy with room for `way` classes, the new ones empty, for `update` to write to."""
        head, grown = self.for_any_number(), {}
        tensors = head.tensors()
        for buffer in self.method.tensors(way, self.embedding_size):
            grown[buffer.name], old = buffer.allocate(), tensors[buffer.name]
            grown[buffer.name][tuple(map(slice, old.shape))] = old
        # The leave-one-out accuracy was measured without the new classes.
        return replace(head, left_out=None, **grown)

    def without_class(self, label: int, way: int) -> "Head":
        """A copy without class `label` of `way` classes: its rows are left out of every tensor."""
        size, tensors, rest = self.embedding_size, self.tensors(), {}
        forms = (self.method.tensors_like(n, size, tensors) for n in (way, way - 1))
        for wide, narrow in zip(*forms, strict=True):
            values = tensors[wide.name]
            for axis, (length, shorter) in enumerate(zip(wide.shape, narrow.shape, strict=True)):
                if shorter < length:
                    values = np.delete(values, label, axis)
            rest[wide.name] = values if values is not tensors[wide.name] else values.copy()
        return replace(self, left_out=None, limit=self.limit and self.limit.without(label), **rest)

    def knowing(self, background: int | None) -> "Head":
        """The head, which never answers the class `background`, also if its method does not know of it."""
        if background is None or (self.limit and self.limit.background == background):
            return self
        return replace(self, limit=Limit(1.0, 0.0, background))

    def answering(self) -> "Head":
        """The head without what only updates need: those bytes are used for something else."""
        buffers = self.method.tensors_like(1, self.embedding_size, self.tensors())
        return replace(self, **{b.name: None for b in buffers if b.lifetime == UPDATING})

    def for_delta(self, arrays: dict[str, np.ndarray]) -> "Head":
        """The head as a delta stores it. `arrays` has the buffers of FITTING by name, no counts."""
        return self


class Normal(NamedTuple):
    """The `typical` score of new images of the only class; an image above `threshold` is UNKNOWN."""

    typical: float
    threshold: float


@dataclass(frozen=True)
class HeadVerdict:
    """The likeliest `label` with the `confidence` in it; `rejected` if that is less than was asked for.

    `state`, one of STATES, says whether the image is of any class at all. A head that cannot tell says
    IDENTIFIED. If there is a single class, `score` says how unlike it the image is: UNKNOWN is what is above
    the `threshold`. Otherwise both are None.
    """

    label: int
    confidence: float
    rejected: bool
    probabilities: np.ndarray
    state: str = IDENTIFIED
    score: float | None = None
    threshold: float | None = None

    def __post_init__(self):
        numbers = (self.confidence, self.score, self.threshold)
        if not all(x is None or math.isfinite(x) for x in numbers):
            raise _no_answer()

    @property
    def refused(self) -> bool:
        """Whether none of the classes is the answer."""
        return self.rejected or self.state == UNKNOWN


def _no_answer() -> AnswerError:
    return AnswerError(
        "delta-not-finite",
        "the head of the delta answers NaN or infinity: its values are too large; adapt again, or use another"
        " delta",
    )


def unit(embeddings: np.ndarray) -> np.ndarray:
    """Embeddings (n, d) of any length, scaled to length 1."""
    return embeddings / np.sqrt((embeddings**2).sum(axis=1, keepdims=True) + 1e-12)


def first_parts(arrays: dict[str, np.ndarray], fewer: Iterable[HeadBuffer]) -> dict[str, np.ndarray]:
    """`arrays` for fewer embeddings than they were declared for, of which the buffers are `fewer`."""
    shapes = {b.name: b.shape for b in fewer if b.name in arrays and b.nbytes < arrays[b.name].nbytes}
    cut = {
        name: arrays[name].reshape(-1)[: math.prod(shape)].reshape(shape) for name, shape in shapes.items()
    }
    return arrays | cut


def all_finite(array: np.ndarray) -> bool:
    """Whether no value is NaN or infinite."""
    flat = array.reshape(-1)
    return all(np.isfinite(flat[first : first + BLOCK]).all() for first in range(0, len(flat), BLOCK))
