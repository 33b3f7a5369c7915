"""Images one after another: verdicts, and corrections of the last ones, which the head learns at once."""

import os
import time
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.episode.sources import images_of
from tinytrain.runtime.predict import Predictor
from tinytrain.stream.learner import Learner, Observation

RECENT = 256  # images whose embeddings are held, so that they need not be looked at again


@dataclass(frozen=True)
class Correction:
    """Image `key` is of class `name`, `new` or not; it was taken for `guess` (None: not known any more).

    `seconds` is how long it took until the head knew and the store held it. `repeated`: it was known already.
    """

    key: str
    name: str
    guess: str | None = None
    new: bool = False
    repeated: bool = False
    seconds: float = 0.0


@dataclass
class _Recent:
    embedding: np.ndarray
    guess: str
    label: str | None = None  # what it was corrected to


class Watcher:
    """`learner` with a `predictor` in front, which makes embeddings of images.

    The last `recent` embeddings are held: `recent` times four bytes times the size of an embedding.
    """

    def __init__(self, learner: Learner, predictor: Predictor, recent: int = RECENT):
        self.learner, self.predictor, self._most = learner, predictor, recent
        self._recent: OrderedDict[str, _Recent] = OrderedDict()

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.learner.delta.class_names

    @property
    def last(self) -> str | None:
        """The key of the last image."""
        return next(reversed(self._recent), None)

    def observe(self, key: str, image, reject: float | None = None) -> Observation:
        """What `image` shows, as `Predictor.predict` takes one; corrections call it `key`.

        Raises InputError for what is no image.
        """
        embedding = self.predictor.embed(images_of([image]))[0]
        found = self.learner.observe(embedding, reject)
        self._recent.pop(key, None)
        self._recent[key] = _Recent(embedding, found.guess)
        while len(self._recent) > self._most:
            self._recent.popitem(last=False)
        return found

    def guess_of(self, key: str) -> str | None:
        """What a recent image was taken for."""
        return self._recent[key].guess if key in self._recent else None

    def correct(self, key: str, name: str, mark: str = "") -> Correction:
        """Learn that image `key` is of class `name`, a new one or not.

        A recent image need not be there any more; any other `key` is the path of an image. Raises InputError
        ``image-gone`` if it is neither, and what `Learner.learn` does.
        """
        start, recent = time.monotonic(), self._recent.get(key)
        if recent is None:
            embedding, guess = self._looked_up(key), None
        elif recent.label == name:
            return Correction(key, name, recent.guess, repeated=True, seconds=time.monotonic() - start)
        else:
            embedding, guess = recent.embedding, recent.guess
        new = self.learner.learn(embedding, name, mark)
        if recent:
            recent.label = name
        return Correction(key, name, guess, new, seconds=time.monotonic() - start)

    def idle(self) -> None:
        """What can be done while no image waits: long journals become a part of the delta."""
        if self.learner.is_fold_due:
            self.learner.fold()

    def _looked_up(self, key: str) -> np.ndarray:
        if not os.path.isfile(key):
            raise InputError(
                "image-gone",
                f"{one_line(key, 200)} is none of the last {self._most} images and no file; give the path of"
                " an image",
            )
        return self.predictor.embed(images_of([key]))[0]
