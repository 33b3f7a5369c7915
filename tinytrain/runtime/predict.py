"""Inference with an adapted network: the same compiled forward pass as in training, nothing else of it."""

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import ClassVar

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.errors import AnswerError, UsageError, one_line
from tinytrain.delta.delta import Delta, apply
from tinytrain.episode.augment import Augmentation
from tinytrain.episode.decode import load_image
from tinytrain.episode.episode import Images
from tinytrain.episode.sources import images_of, is_single
from tinytrain.heads.head import IDENTIFIED
from tinytrain.kernels.blas import one_thread
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.compile import compile_training
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import Binder
from tinytrain.runtime.bound_unit import QueryUnit
from tinytrain.runtime.int8_copy import working_copy

FORWARD_ONLY = Recipe("none", (), (), steps=0, head="cosine")
ONE_IMAGE = Resources(sets=0, micro=1, accumulators=1, step_support=1, step_queries=1)


@dataclass(frozen=True)
class Prediction:
    """The likeliest class of an image, and the confidence in it, 0 to 1.

    `verdict` is "identified", "uncertain" (one of the classes, but `name` is less likely than the others
    together) or "unknown" (it belongs to no class). If a delta cannot tell, every verdict is "identified".
    `name` is None if it is "unknown", or if the confidence is below the `reject` that was asked for.
    If there is a single class, `score` says how unlike it the image is; what is above `threshold` is unknown.
    `best_guess` is the likeliest class all the same. `probabilities` has every class by name, in the order of
    the delta; they add up to 1 for strangers, too.
    """

    name: str | None
    confidence: float
    probabilities: dict[str, float] = field(repr=False)
    verdict: str = IDENTIFIED
    score: float | None = None
    threshold: float | None = None

    @property
    def best_guess(self) -> str:
        """The likeliest class, the first of several."""
        return max(self.probabilities, key=self.probabilities.__getitem__)


class Predictor:
    """`network` with `delta` applied, ready to look at images one at a time.

    An image is a path, the bytes of a file, a PIL image, or a uint8 array: (rows, columns, 3) in RGB order,
    (rows, columns, 1) or (rows, columns). Images of any size are resized and cropped as in training. `arena`
    is the bytes that inference works in; threads that share a predictor take turns at it. It can be handed to
    other processes: forked, or pickled without its arena. Raises InputError for a delta of another backbone.
    """

    _all: ClassVar[weakref.WeakSet] = weakref.WeakSet()

    def __init__(self, network: Network, delta: Delta, backend: str = "auto"):
        self.network, self.delta, self.backend, self.input = network, delta, backend, network.input
        shape = TaskShape(1, len(delta.class_names))
        recipe = FORWARD_ONLY.in_precision(delta.precision)
        program = compile_training(apply(network, delta), recipe, ONE_IMAGE, shape)
        working = working_copy(program, network)
        bind = Binder(program, Arena(program.nbytes), working, kernel_table.load(backend))
        self.arena, self.embedding_size = program.nbytes, network.embedding_size
        self._unit, self._turn = QueryUnit(bind), threading.Lock()
        self._all.add(self)

    def __reduce__(self):
        return type(self), (self.network, self.delta, self.backend)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.delta!r}>"

    def predict(self, images, reject: float | None = None) -> Prediction | list[Prediction]:
        """The prediction for an image, or a list of them for a list of images (also an array (n, ...) or
        `Images`).

        Its name is None if it belongs to no class, or below the confidence `reject` (0 to 1). Raises
        InputError for what is no image, and UsageError for a `reject` outside of 0 to 1.
        """
        if reject is not None and not (isinstance(reject, Real) and 0 <= reject <= 1):
            raise UsageError("usage", f"reject={reject!r} is no confidence; give a number from 0 to 1")
        single, listed = _listed(images)
        head, names = self.delta.head, self.delta.class_names
        predictions = []
        for embedding in self.embed(listed):
            verdict = head.verdict(embedding, reject)
            probabilities = dict(zip(names, verdict.probabilities.tolist(), strict=True))
            name = None if verdict.refused else names[verdict.label]
            how = (verdict.state, verdict.score, verdict.threshold)
            predictions.append(Prediction(name, verdict.confidence, probabilities, *how))
        return predictions[0] if single else predictions

    __call__ = predict

    def embed(
        self, images: Images, augmentation: Callable[[int], Augmentation | None] = lambda i: None
    ) -> np.ndarray:
        """Embeddings (n, d) of images, each augmented by `augmentation(i)`.

        Raises AnswerError ``network-not-finite`` if one holds NaN or infinity.
        """
        out = np.empty((len(images), self.embedding_size), np.float32)
        with one_thread(), np.errstate(all="ignore"):  # what overflows is said below, in one line
            for i in range(len(images)):
                image = images.image(i, self.input.shape)
                with self._turn:
                    self._unit.show(image)
                    out[i] = self._unit.embed(augmentation(i))
                if not np.isfinite(out[i]).all():
                    raise AnswerError(
                        "network-not-finite",
                        f"{one_line(self.network.name, 100)} gives NaN or infinity for image"
                        f" {one_line(images.names[i], 200)}: its values, or the delta's, are too large; use"
                        " others",
                    )
        return out

    def logits(self, images: Images) -> np.ndarray:
        """(n, way) logits of the delta's head, before its temperature."""
        return self.delta.head.logits(self.embed(images))

    def probabilities(self, images) -> np.ndarray:
        """Calibrated class probabilities: (way,) for an image, (n, way) for a list of images or `Images`."""
        single, listed = _listed(images)
        probabilities = self.delta.head.probabilities(self.embed(listed))
        return probabilities[0] if single else probabilities


def _turns_anew() -> None:
    """A forked process lacks the thread whose turn it may be; nobody else would let go of the lock."""
    for predictor in Predictor._all:
        predictor._turn = threading.Lock()


os.register_at_fork(after_in_child=_turns_anew)


def _listed(images) -> tuple[bool, Images]:
    """Whether `images` is a single image, and the `Images` of it or of the list."""
    if isinstance(images, Images):
        return False, images
    single = is_single(images)
    return single, images_of([images] if single else images)


def one_image(path) -> Images:
    """The image in a file, unlabelled."""
    return Images(np.zeros(1, np.int32), (str(path),), lambda i, size: load_image(path, size))
