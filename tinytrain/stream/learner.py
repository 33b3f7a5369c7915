"""A head that answers for embeddings, one after another, and learns from corrections.

Everything here works on embeddings, so that months of a stream can be simulated in minutes; `watcher` puts
images in front of it. With a store, a correction is on the medium before `learn` returns.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.errors import InputError, StorageError
from tinytrain.delta.delta import Delta, Slice
from tinytrain.delta.file import encode_delta
from tinytrain.drift.detector import STABLE
from tinytrain.heads.head import HeadVerdict
from tinytrain.store import ChangedError, Entry, Place, Start, Store, learnt
from tinytrain.store.journal import FORGET, LEARN, RENAME, framed

# A journal is made a part of its delta at so many entries or bytes, whichever comes first.
FOLD_ENTRIES, FOLD_BYTES = 256, 2**19


class Monitor(Protocol):
    """What looks for a change of the stream, such as `tinytrain.drift.unlabelled.UnlabelledDrift`."""

    def update(self, embedding: np.ndarray, centres: np.ndarray | None) -> str:
        """STABLE, WARNING or DRIFT after one more embedding; `centres` are the class means if known."""

    def reset(self) -> None:
        """Begin afresh: the classes are not what they were."""


@dataclass(frozen=True)
class Observation:
    """What an embedding shows. `name` is the class, None for none of them; `guess` is the likeliest one.

    `drift` is STABLE, WARNING or DRIFT. `key` is how corrections call the image, "" for an embedding.
    """

    name: str | None
    guess: str
    verdict: HeadVerdict
    drift: str = STABLE
    key: str = ""


class Learner:
    """The head of `delta`, which learns; with a `store`, of which `start` is one, that is kept there.

    Methods that learn raise InputError for what the
    delta cannot learn, and StorageError if it cannot be kept; nothing is learnt then.
    """

    def __init__(
        self,
        delta: Delta,
        store: Store | None = None,
        start: Start | None = None,
        monitor: Monitor | None = None,
        backend: str = "auto",
    ):
        self.delta, self.store, self.monitor = delta, store, monitor
        self.kernels = kernel_table.load(backend)
        self.place: Place | None = start.place if start else None
        self.entries = start.entries if start else 0  # of the journal

    def observe(self, embedding: np.ndarray, reject: float | None = None) -> Observation:
        """What the embedding (d,) shows; none of the classes if the confidence is below `reject`."""
        verdict = self.delta.head.verdict(embedding, reject)
        guess = self.delta.class_names[verdict.label]
        drift = STABLE
        if self.monitor is not None:
            drift = self.monitor.update(embedding, getattr(self.delta.head, "means", None))
        return Observation(None if verdict.refused else guess, guess, verdict, drift)

    def learn(self, embedding: np.ndarray, name: str, mark: str = "") -> bool:
        """Learn that the embedding (d,) is of class `name`; returns whether the class is new.

        `mark` is a short text that `self.mark` returns from then on, also after a restart.
        """
        if not np.isfinite(embedding).all():
            raise InputError(
                "journal-entry", "an embedding holds NaN or infinity; this image cannot be learnt"
            )
        way = len(self.delta.class_names)
        self._take(Entry(LEARN, name, np.asarray(embedding, np.float32), mark=mark))
        return len(self.delta.class_names) > way

    def forget(self, name: str) -> None:
        """Take class `name` out; raises what `forget` of a delta does."""
        self._take(Entry(FORGET, name))
        if self.monitor is not None:
            self.monitor.reset()

    def rename(self, old: str, new: str) -> None:
        """Call class `old` by the name `new`; raises what `rename` of a delta does."""
        self._take(Entry(RENAME, old, new_name=new))

    @property
    def mark(self) -> str:
        """The last mark that was learnt, "" without one."""
        return self.delta.report.get("watched", {}).get("mark", "")

    @property
    def is_fold_due(self) -> bool:
        """Whether the journal is long enough to be made a part of the delta."""
        if self.place is None:
            return False
        return self.entries >= FOLD_ENTRIES or self.place.end >= FOLD_BYTES

    def fold(self) -> None:
        """Make the journal a part of the delta in the store, as it is due now and then."""
        if self.store is None or not self.entries:
            return
        try:
            self.place, self.entries = self.store.fold(self.place, self.delta), 0
        except ChangedError:
            self._read_again()

    def _take(self, entry: Entry) -> None:
        delta = learnt(self.kernels, self.delta, entry)
        if self.store is not None:
            try:
                self.place = self.store.append(self.place, entry)
            except ChangedError:
                # Another process learns in the same store: go on from what it has learnt.
                self._read_again()
                delta = learnt(self.kernels, self.delta, entry)
                try:
                    self.place = self.store.append(self.place, entry)
                except ChangedError as error:
                    raise self._changed() from error
            self.entries += 1
        self.delta = delta

    def _read_again(self) -> None:
        start = self.store.peek()
        if start.delta is None or not _same_network(start.delta, self.delta):
            raise self._changed()
        self.delta, self.place, self.entries = start.delta, start.place, start.entries

    def _changed(self) -> StorageError:
        text = f"another process has put another delta into {self.store.path}; start again to use that"
        return StorageError("store-changed", text)


def entry_bytes(size: int, name: str, mark_letters: int = 0) -> int:
    """Bytes that one correction to class `name` adds to a journal, for an embedding of `size` values."""
    entry = Entry(LEARN, name, np.zeros(size, np.float32), mark="0" * mark_letters)
    return len(framed(entry, "00" * 32, 0))


def bytes_a_year(delta: Delta, corrections_a_day: float) -> tuple[float, float]:
    """Bytes that journals and folds write in a year of so many corrections a day.

    What a file system and flash add to each write is not in it: a correction is one append and one sync, a
    fold three files and as many syncs of their folder.
    """
    year = 365 * corrections_a_day
    name = max(delta.class_names, key=lambda name: len(name.encode()))
    entry = entry_bytes(delta.head.embedding_size, name, 40)
    entries = min(FOLD_ENTRIES, FOLD_BYTES // entry)
    return year * entry, year / entries * len(encode_delta(delta))


def _same_network(a: Delta, b: Delta) -> bool:
    """Whether both deltas change the network alike, so that embeddings mean the same to their heads."""
    if a.backbone != b.backbone or len(a.slices) != len(b.slices):
        return False
    return all(_same_slice(s, t) for s, t in zip(a.slices, b.slices, strict=True))


def _same_slice(s: Slice, t: Slice) -> bool:
    if (s.layer, s.part, len(s.arrays())) != (t.layer, t.part, len(t.arrays())):
        return False
    return all(np.array_equal(x, y) for x, y in zip(s.arrays(), t.arrays(), strict=True))
