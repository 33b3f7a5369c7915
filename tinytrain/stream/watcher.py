"""Images one after another: verdicts, and corrections of the last ones, which the head learns at once."""

import contextlib
import os
import time
import unicodedata
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import InputError, StorageError, one_line
from tinytrain.delta.delta import Delta
from tinytrain.drift.unlabelled import UnlabelledDrift
from tinytrain.episode.kind import Kind
from tinytrain.episode.kinds import kind_of
from tinytrain.episode.sources import images_of
from tinytrain.network.network import Network
from tinytrain.runtime.predict import Predictor
from tinytrain.store import Start, Store
from tinytrain.store.kept import MOST, CorrectedImages, digest_of
from tinytrain.stream.events import Learned, TakenBack, Verdict
from tinytrain.stream.learner import Learner
from tinytrain.stream.sources import Frame

RECENT = 256  # images whose embeddings are held, so that they need not be looked at again
NEVER = -1  # in place of when an embedding was made
RECENT_BYTES = 8  # of these, how many that came as bytes are held to be kept


@dataclass
class RecentImage:
    """An image: its embedding (d,) by a delta, the one in use from `since` on, what it was taken for, the
    digest of its content, a path or bytes that can be kept, and the path without links that its key means."""

    embedding: np.ndarray
    since: int
    guess: str | None
    digest: str
    image: object = None
    place: str = ""


class Watcher:
    """Looks at images with `network` as `delta` changed it, and learns from corrections of the last ones.

    With a `store` and its `start`, what is learnt is kept there, and at most `keep` corrected images. The
    last RECENT embeddings are held, four bytes a value. As long as it lives, no start of another process
    counts for a delta on trial in its store. Raises InputError for a delta of another backbone.
    """

    def __init__(
        self,
        network: Network,
        delta: Delta,
        store: Store | None = None,
        start: Start | None = None,
        keep: int = MOST,
        backend: str = "auto",
    ):
        self.learner = Learner(delta, store, start, UnlabelledDrift(delta.head.embedding_size), backend)
        self.predictor = Predictor(network, delta, backend)
        self.kept = None if store is None else CorrectedImages(store.kept.path, keep)
        self._recent: OrderedDict[str, RecentImage] = OrderedDict()
        self._since = 0  # how often another delta has come into use
        self._before: tuple[str, Predictor | None] = "", None  # the delta before one on trial
        if store is not None:
            with contextlib.suppress(OSError):
                weakref.finalize(self, os.close, store.hold())

    def __reduce__(self):
        raise TypeError("a Watcher has its place in a stream and a store; open another one in that process")

    @property
    def kind(self) -> Kind:
        """What it looks at, mostly images."""
        return kind_of(self.predictor.input.kind)

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.learner.delta.class_names

    @property
    def last(self) -> str | None:
        """The key of the last image."""
        return next(reversed(self._recent), None)

    def watch(self, images: Iterable, reject: float | None = None) -> Iterator[Verdict]:
        """The verdict on each of `images`, whose `key` is its path, or "image 1" and so on.

        Raises InputError for what is no image.
        """
        for number, image in enumerate(images, 1):
            is_path = isinstance(image, str | os.PathLike)
            yield self.observe(os.fspath(image) if is_path else f"image {number}", image, reject)

    def observe(self, key: str, image, reject: float | None = None) -> Verdict:
        """What `image` shows, as `Predictor.predict` takes one; corrections call it `key`.

        None of the classes if the confidence is below `reject`. Raises InputError for what is no image.
        """
        return self.look_at(Frame(key, image), reject)

    def look_at(self, frame: Frame, reject: float | None = None) -> Verdict:
        """`observe` the image of a source, by what was read of its file already."""
        key, image = frame.name, frame.content if frame.data is None else frame.data
        start = time.monotonic()
        embedding = self._embedding(self.predictor, image, key)
        found = self.learner.observe(embedding, reject)
        seconds = time.monotonic() - start
        digest = frame.digest or _digest(image) or digest_of(embedding)
        place, content = os.path.realpath(key), _content(frame.content)
        self._remember(key, RecentImage(embedding, self._since, found.guess, digest, content, place))
        return replace(found, key=key, seconds=seconds)

    def logits(self, item: np.ndarray) -> np.ndarray:
        """Those (way,) of an item that the network takes, which is not remembered."""
        return self.learner.delta.head.logits(self._embedding(self.predictor, item)[None])[0]

    def score(self, logits: np.ndarray) -> float:
        """What of logits (way,) is compared with the limit of the head, which must have one."""
        return self.learner.delta.head.limit.score(logits)

    def guess_of(self, key: str) -> str | None:
        """What a recent image was taken for."""
        key = self._as_observed(key)
        return self._recent[key].guess if key in self._recent else None

    def recall(self, key: str) -> RecentImage:
        """The recent image `key`, or another one at this path. Raises InputError ``file-missing``."""
        key = self._as_observed(key)
        if key in self._recent:
            return self._recent[key]
        if not os.path.isfile(key):
            raise self._gone(key)
        return RecentImage(np.empty(0), NEVER, None, _digest(key), key)

    def _as_observed(self, key: str) -> str:
        """The key of the recent image that `key` means: a path may be relative, absolute or through links."""
        if key in self._recent:
            return key
        place = os.path.realpath(key)
        return next((other for other, recent in self._recent.items() if recent.place == place), key)

    def correct(
        self, key: str, name: str, mark: str = "", new: bool = False, recent: RecentImage | None = None
    ) -> Learned:
        """Learn that image `key` is of class `name`, which may be a new one if `new` is true.

        A second label of an image, known by its content, replaces the first, as far as `Learner.reaches` it;
        the same label again is not learnt. A recent image need not be there any more; any other `key` is the
        path of an image. `recent` is what `recall` gave for it earlier. If another process has put a delta
        into the store that changes the network in another way, this goes on with that. Raises InputError
        ``file-missing``, ``unknown-class``, and what `Learner.learn` does.
        """
        start, key, name = time.monotonic(), self._as_observed(key), unicodedata.normalize("NFC", name)
        if not new and name not in self.class_names:
            text = f"no class {one_line(name, 100)!r}; give new=True if it is a new one"
            raise InputError("unknown-class", text)
        recent = recent or self.recall(key)
        guess, content, image = recent.guess, recent.image, recent.digest
        before = self.learner.label_of(image)
        replaced = before is not None and self.learner.reaches(image)
        is_new = before != name and self._learn(key, recent, name, mark)
        seconds = round(time.monotonic() - start, 6)
        if before != name and self.kept is not None:
            self.kept.keep(content, name, self.kind.suffixes[0], image)
        return Learned(key, name, guess, is_new, before == name, seconds, before, replaced)

    def undo(self, key: str | None = None, mark: str = "") -> TakenBack | None:
        """Take back the last label of image `key`, or the last of all, also of an earlier run.

        The head is then what it would be without that label, bit for bit. None if there is no label since
        the journal became a part of the delta. Raises InputError ``file-missing``, and StorageError.
        """
        image = "" if key is None else self.recall(key).digest
        while True:
            with self._going_on():
                found = self.learner.undo(image, mark)
                break
        if found is None:
            return None
        image, before = found
        name = self.learner.label_of(image)
        if self.kept is not None:
            self.kept.move(image, name)
        if key is None:
            key = next((key for key, recent in self._recent.items() if recent.digest == image), "")
        return TakenBack(key, name, before)

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
        if self.learner.is_fold_due and not self.is_on_trial():
            with self._going_on():
                self.learner.fold()

    def is_on_trial(self) -> bool:
        """Whether the delta in use is on trial. As long as it is, its journal is not read for that."""
        if self.learner.start is None:
            return False
        if not self.learner.start.confirmed and self.learner.store.is_confirmed():
            self.refresh()
        return not self.learner.start.confirmed

    def refresh(self) -> None:
        """Go on from what the store holds now. Raises StorageError ``store-changed`` for another network."""
        with self._going_on():
            self.learner.read_again()

    @contextlib.contextmanager
    def _going_on(self) -> Iterator[None]:
        """If another process has put another delta into the store, go on with that."""
        try:
            yield
        except StorageError as error:
            if error.code != "store-changed":
                raise
            start = self.learner.store.peek()
            network, backend = self.predictor.network, self.learner.backend
            if start.delta is None or start.delta.backbone != network.digest:
                raise
            monitor = self.learner.monitor
            self.learner = Learner(start.delta, self.learner.store, start, monitor, backend)
            self.predictor, self._since = Predictor(network, start.delta, backend), self._since + 1
            if monitor is not None:
                monitor.reset()

    def _learn(self, key: str, recent: RecentImage, name: str, mark: str) -> bool:
        right = None if recent.guess is None else recent.guess == name
        while True:
            if recent.since != self._since:
                if recent.image is None or _digest(recent.image) != recent.digest:
                    raise self._gone(key)
                recent.embedding, recent.since = self._embedding(self.predictor, recent.image), self._since
            with self._going_on():
                before = self._embedding_before(recent)
                return self.learner.learn(recent.embedding, name, mark, recent.digest, before, right)

    def _embedding_before(self, recent: RecentImage) -> np.ndarray | None:
        """The embedding by the delta before the one on trial; None without one, or if the image has gone."""
        start = self.learner.start
        if start is None or start.before is None or recent.image is None:
            return None
        if self._before[0] != start.before:
            before, network = self.learner.store.before(), self.predictor.network
            if before is None or before.place is None or before.place.slot.sha256 != start.before:
                return None
            fits = before.delta.backbone == network.digest
            predictor = Predictor(network, before.delta, self.learner.backend) if fits else None
            self._before = start.before, predictor
        if self._before[1] is None or _digest(recent.image) != recent.digest:  # another image by now
            return None
        with contextlib.suppress(InputError):
            return self._embedding(self._before[1], recent.image)
        return None

    @staticmethod
    def _embedding(predictor: Predictor, image, *names: str) -> np.ndarray:
        return predictor.embed(images_of([image], names=names, kind=predictor.input.kind))[0]

    def _remember(self, key: str, recent: RecentImage) -> None:
        self._recent.pop(key, None)
        self._recent[key] = recent
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)
        if isinstance(recent.image, bytes):
            held = [old for old in self._recent.values() if isinstance(old.image, bytes)]
            for old in held[:-RECENT_BYTES]:
                old.image = None

    def _gone(self, key: str) -> InputError:
        text = f"{one_line(key, 200)} is none of the last {RECENT} images and no file"
        return InputError("file-missing", f"{text}; give the path of an image")


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
