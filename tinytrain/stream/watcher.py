"""Images one after another: verdicts, and corrections of the last ones, which the head learns at once."""

import contextlib
import os
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.episode.sources import images_of
from tinytrain.runtime.predict import Predictor
from tinytrain.stream.kept import Kept, digest_of
from tinytrain.stream.learner import Learner, Observation

RECENT = 256  # images whose embeddings are held, so that they need not be looked at again
RECENT_BYTES = 8  # of these, how many that came as bytes are held to be kept


@dataclass(frozen=True)
class Correction:
    """Image `key` is of class `name`, `new` or not; it was taken for `guess` (None: not known any more).

    `before` is the label that it had; `replaced` if nothing of that is left in the head. After `undo`, `name`
    is what it had before that, None for no label. `seconds` is how long it took until the head knew and the
    store held it. `repeated`: it was known already.
    """

    key: str
    name: str | None
    guess: str | None = None
    new: bool = False
    repeated: bool = False
    seconds: float = 0.0
    before: str | None = None
    replaced: bool = False


@dataclass
class _Recent:
    embedding: np.ndarray
    guess: str
    digest: str  # of the content
    image: object = None  # a path or bytes that can be kept


class Watcher:
    """`learner` with a `predictor` in front, which makes embeddings of images; `kept` holds corrected ones.

    The last `recent` embeddings are held: `recent` times four bytes times the size of an embedding.
    """

    def __init__(
        self, learner: Learner, predictor: Predictor, kept: Kept | None = None, recent: int = RECENT
    ):
        self.learner, self.predictor, self.kept, self._most = learner, predictor, kept, recent
        self._recent: OrderedDict[str, _Recent] = OrderedDict()

    def __reduce__(self):
        raise TypeError("a Watcher has its place in a stream and a store; open another one in that process")

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
        embedding = self.predictor.embed(images_of([image], names=[key]))[0]
        found = self.learner.observe(embedding, reject)
        self._remember(
            key, _Recent(embedding, found.guess, _digest(image) or digest_of(embedding), _content(image))
        )
        return replace(found, key=key)

    def guess_of(self, key: str) -> str | None:
        """What a recent image was taken for."""
        return self._recent[key].guess if key in self._recent else None

    def correct(self, key: str, name: str, mark: str = "", new: bool = False) -> Correction:
        """Learn that image `key` is of class `name`, which may be a new one if `new` is true.

        A second label of an image, known by its content, replaces the first, as far as `Learner.reaches` it;
        the same label again is not learnt. A recent image need not be there any more; any other `key` is the
        path of an image. Raises InputError ``image-gone`` if it is neither, ``new-class``, and what
        `Learner.learn` does.
        """
        start, learner = time.monotonic(), self.learner
        name, recent = unicodedata.normalize("NFC", name), self._recent.get(key)
        if not new and name not in self.class_names:
            text = f"no class {one_line(name, 100)!r}; give new=True if it is a new one"
            raise InputError("new-class", text)
        guess, content = (recent.guess, recent.image) if recent else (None, key)
        image = self._digest_of(key)
        before = learner.label_of(image)
        replaced = before is not None and learner.reaches(image)
        is_new = False
        if before != name:
            embedding = recent.embedding if recent else self.predictor.embed(images_of([key]))[0]
            is_new = learner.learn(embedding, name, mark, image)
        seconds = time.monotonic() - start
        if before != name and self.kept is not None and content is not None:
            self.kept.keep(content, name, image=image)
        return Correction(key, name, guess, is_new, before == name, seconds, before, replaced)

    def undo(self, key: str | None = None, mark: str = "") -> Correction | None:
        """Take back the last label of image `key`, or the last of all, also of an earlier run.

        The head is then what it would be without that label, bit for bit. None if there is no label since
        the journal became a part of the delta. Raises InputError ``image-gone``, and StorageError.
        """
        start = time.monotonic()
        found = self.learner.undo("" if key is None else self._digest_of(key), mark)
        if found is None:
            return None
        image, before = found
        name, seconds = self.learner.label_of(image), time.monotonic() - start
        if self.kept is not None:
            self.kept.move(image, name)
        if key is None:
            key = next((key for key, recent in self._recent.items() if recent.digest == image), "")
        return Correction(key, name, seconds=seconds, before=before, replaced=True)

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

    def _digest_of(self, key: str) -> str:
        if key in self._recent:
            return self._recent[key].digest
        if not os.path.isfile(key):
            raise InputError(
                "image-gone",
                f"{one_line(key, 200)} is none of the last {self._most} images and no file; give the path of"
                " an image",
            )
        return _digest(key)


def _digest(image) -> str:
    """The digest of the content; "" if that has vanished, and then the one of the embedding counts."""
    with contextlib.suppress(OSError):
        return digest_of(image)
    return ""


def _content(image) -> str | bytes | None:
    """What of `image` can be kept as it is: its path or its bytes."""
    if isinstance(image, str | os.PathLike):
        return os.fspath(image)
    return bytes(image) if isinstance(image, bytes | bytearray) else None
