"""Images one after another: verdicts, and corrections of the last ones, which the head learns at once."""

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.episode.sources import images_of
from tinytrain.runtime.predict import Predictor
from tinytrain.stream.kept import Kept
from tinytrain.stream.learner import Learner, Observation

RECENT = 256  # images whose embeddings are held, so that they need not be looked at again
RECENT_BYTES = 8  # of these, how many that came as bytes are held to be kept


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
    image: object = None  # a path or bytes that can be kept
    label: str | None = None  # what it was corrected to


class Watcher:
    """`learner` with a `predictor` in front, which makes embeddings of images; `kept` holds corrected ones.

    The last `recent` embeddings are held: `recent` times four bytes times the size of an embedding.
    """

    def __init__(
        self, learner: Learner, predictor: Predictor, kept: Kept | None = None, recent: int = RECENT
    ):
        self.learner, self.predictor, self.kept, self._most = learner, predictor, kept, recent
        self._recent: OrderedDict[str, _Recent] = OrderedDict()

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.learner.delta.class_names

    @property
    def last(self) -> str | None:
        """The key of the last image."""
        return next(reversed(self._recent), None)

    def watch(self, images: Iterable, reject: float | None = None) -> Iterator[Observation]:
        """An observation of each of `images`, whose `key` is its path, or "image 1" and so on.

        Raises InputError for what is no image.
        """
        for number, image in enumerate(images, 1):
            is_path = isinstance(image, str | os.PathLike)
            yield self.observe(os.fspath(image) if is_path else f"image {number}", image, reject)

    def observe(self, key: str, image, reject: float | None = None) -> Observation:
        """What `image` shows, as `Predictor.predict` takes one; corrections call it `key`.

        None of the classes if the confidence is below `reject`. Raises InputError for what is no image.
        """
        embedding = self.predictor.embed(images_of([image]))[0]
        found = self.learner.observe(embedding, reject)
        self._remember(key, _Recent(embedding, found.guess, _content(image)))
        return replace(found, key=key)

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
            recent = _Recent(self._looked_up(key), None, key)
        elif recent.label == name:
            return Correction(key, name, recent.guess, repeated=True, seconds=time.monotonic() - start)
        new = self.learner.learn(recent.embedding, name, mark)
        recent.label = name
        seconds = time.monotonic() - start
        if self.kept is not None and recent.image is not None:
            self.kept.keep(recent.image, name)
        return Correction(key, name, recent.guess, new, seconds=seconds)

    def forget(self, name: str) -> None:
        """Take class `name` out, and its kept images. Raises InputError."""
        self.learner.forget(name)
        if self.kept is not None:
            self.kept.forget(name)

    def rename(self, old: str, new: str) -> None:
        """Call class `old` by the name `new`. Raises InputError."""
        self.learner.rename(old, new)
        if self.kept is not None:
            self.kept.rename(old, new)

    def idle(self) -> None:
        """What can be done while no image waits: long journals become a part of the delta."""
        if self.learner.is_fold_due:
            self.learner.fold()

    def _remember(self, key: str, recent: _Recent) -> None:
        self._recent.pop(key, None)
        self._recent[key] = recent
        while len(self._recent) > self._most:
            self._recent.popitem(last=False)
        if isinstance(recent.image, bytes):
            held = [old for old in self._recent.values() if isinstance(old.image, bytes)]
            for old in held[:-RECENT_BYTES]:
                old.image = None

    def _looked_up(self, key: str) -> np.ndarray:
        if not os.path.isfile(key):
            raise InputError(
                "image-gone",
                f"{one_line(key, 200)} is none of the last {self._most} images and no file; give the path of"
                " an image",
            )
        return self.predictor.embed(images_of([key]))[0]


def _content(image) -> str | bytes | None:
    """What of `image` can be kept as it is: its path or its bytes."""
    if isinstance(image, str | os.PathLike):
        return os.fspath(image)
    return bytes(image) if isinstance(image, bytes | bytearray) else None
