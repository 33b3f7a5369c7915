"""Predictions of an adapted network: its embeddings, and what the head of the delta says of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real

import numpy as np

from tinytrain.base.errors import UsageError
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.episode.kind import Change
from tinytrain.episode.sources import images_of, is_single
from tinytrain.heads.head import IDENTIFIED
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.runtime.embedder import embedder_of


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
    (rows, columns, 1) or (rows, columns). Images of any size are resized and cropped as in training; what
    else a network may take, `Kind.given` says. `arena` is the bytes that inference works in: as many for each
    core after a long list. Threads that share a predictor take turns at it. It can be handed to other
    processes: forked, or pickled without its arena. Raises InputError for a delta of another backbone.
    """

    def __init__(self, network: Network | Committee, delta: Delta, backend: str = "auto"):
        self.network, self.delta, self.backend, self.input = network, delta, backend, network.input
        self.embedder = embedder_of(network, delta, backend)

    @property
    def arena(self) -> int:
        return self.embedder.arena

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
        single, listed = self._listed(images)
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
        self, images: Images, augmentation: Callable[[int], Change | None] = lambda i: None
    ) -> np.ndarray:
        """Embeddings (n, d) of images, each augmented by `augmentation(i)`.

        Raises AnswerError ``network-not-finite`` if one holds NaN or infinity.
        """
        return self.embedder.embed(images, augmentation)

    def logits(self, images: Images) -> np.ndarray:
        """(n, way) logits of the delta's head, before its temperature."""
        return self.delta.head.logits(self.embed(images))

    def probabilities(self, images) -> np.ndarray:
        """Calibrated class probabilities: (way,) for an image, (n, way) for a list of images or `Images`."""
        single, listed = self._listed(images)
        probabilities = self.delta.head.probabilities(self.embed(listed))
        return probabilities[0] if single else probabilities

    def _listed(self, images) -> tuple[bool, Images]:
        """Whether `images` is a single image, and the `Images` of it or of the list."""
        if isinstance(images, Images):
            return False, images
        single = is_single(images, self.input.kind)
        return single, images_of([images] if single else images, kind=self.input.kind)
