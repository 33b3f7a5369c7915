"""A head that answers for embeddings, one after another, and learns from corrections.

Everything here works on embeddings, so that months of a stream can be simulated in minutes; `watcher` puts
images in front of it. With a store, a correction is on the medium before `learn` returns.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.errors import InputError, StorageError
from tinytrain.delta.delta import Delta
from tinytrain.drift.detector import STABLE
from tinytrain.drift.refit import refitted
from tinytrain.drift.unlabelled import UnlabelledDrift
from tinytrain.store import ChangedError, Entry, Place, Start, Store
from tinytrain.store.journal import FORGET, LEARN, RENAME, UNDO
from tinytrain.store.journal_replay import in_force, marked, replayed, standing, watched
from tinytrain.store.kept import digest_of
from tinytrain.stream.events import Verdict

# A journal is made a part of its delta at so many entries or bytes, whichever comes first.
FOLD_ENTRIES, FOLD_BYTES = 256, 2**19
STATES = 4  # deltas that are held, so that what was learnt last is replaced and taken back as fast as learnt


class Learner:
    """The head of `delta`, which learns; with a `store` and its `start`, what it learns is kept there.

    A second label of an image replaces the first, and a label can be taken back: the head is then what it
    would be if it had never been given, bit for bit, because what followed is learnt again without it. That
    reaches back to the last fold. Methods that learn raise InputError for what the delta cannot learn, and
    StorageError if it cannot be kept; nothing is learnt then. What other processes learn in the same store is
    learnt with it; if they put a delta there that changes the network in another way, that is StorageError
    ``store-changed``. `start` is the last one that was seen.
    """

    def __init__(
        self,
        delta: Delta,
        store: Store | None = None,
        start: Start | None = None,
        monitor: UnlabelledDrift | None = None,
        backend: str = "auto",
    ):
        self.delta, self.store, self.monitor = delta, store, monitor
        self.kernels, self.backend = kernel_table.load(backend), backend
        self.start: Start | None = None
        self.place: Place | None = None
        if start is None:
            self._begin(delta)
        else:
            self._go_on(start)

    def _begin(self, base: Delta, entries: Sequence[Entry] = ()) -> None:
        """Go on from `entries` since `base`, which made `delta`."""
        self.entries = list(entries)
        # How many entries in force each delta has learnt: the base, and the last ones.
        self._states = [(0, base), (len(in_force(entries)), self.delta)]

    def observe(self, embedding: np.ndarray, reject: float | None = None) -> Verdict:
        """What the embedding (d,) shows; none of the classes if the confidence is below `reject`."""
        verdict = self.delta.head.verdict(embedding, reject)
        guess = self.delta.class_names[verdict.label]
        drift = STABLE
        if self.monitor is not None:
            means = getattr(self.delta.head, "means", None)
            drift = self.monitor.update(embedding, means, verdict.label)
        return Verdict(None if verdict.refused else guess, guess, verdict, drift, reject)

    def learn(
        self,
        embedding: np.ndarray,
        name: str,
        mark: str = "",
        image: str = "",
        before: np.ndarray | None = None,
        right: bool | None = None,
    ) -> bool:
        """Learn that the embedding (d,) is of class `name`; returns whether the class is new.

        `image` is a digest of what was embedded, by default one of the embedding: it replaces what was learnt
        of the same image since the last fold, and an image that is of class `name` already is not learnt
        again. `mark`, ``key:value``, is in `marks` from then on, also after a restart. On trial, `before` is
        the embedding by the network of the delta before, which learns it if the trial goes back. `right` says
        whether the image had been taken for `name`, None if that is not known.
        """
        if not np.isfinite(embedding).all():
            raise InputError(
                "network-not-finite", "an embedding holds NaN or infinity; this image cannot be learnt"
            )
        embedding, names = np.asarray(embedding, np.float32), self.delta.class_names
        name = unicodedata.normalize("NFC", name)
        image = image or digest_of(embedding)
        if self.label_of(image) == name:
            return False
        self._take(Entry(LEARN, name, embedding, "", mark, image, before, right))
        return name not in names

    def undo(self, image: str = "", mark: str = "") -> tuple[str, str] | None:
        """Take back the last label of `image`, or of any; returns the image and the label.

        None if there is no label since the last fold.
        """
        for entry in reversed(standing(self.entries)):
            label = self.label_of(entry.image)
            if entry.action == LEARN and label and image in ("", entry.image):
                self._take(Entry(UNDO, entry.name, image=entry.image, mark=mark))
                return entry.image, label
        return None

    def label_of(self, image: str) -> str | None:
        """The class that the image with this digest was said to be of, None if that is not known."""
        labels = watched(self.delta.report)["labels"]
        return next((name for name, images in labels.items() if image in images), None)

    def reaches(self, image: str) -> bool:
        """Whether the label of `image` can be replaced and taken back, being younger than the last fold."""
        return any(entry.action == LEARN and entry.image == image for entry in standing(self.entries))

    def rights(self) -> list[bool]:
        """Whether images that were learnt since the last fold had been taken for what they are, if known."""
        first = {e.image: e.right for e in reversed(standing(self.entries)) if e.action == LEARN}
        return [right for right in reversed(first.values()) if right is not None]

    def afresh(self, since: int) -> Delta | None:
        """The delta with a head that is fitted to the last `since` images learnt, as `refitted` does.

        Images from before the last fold are not known. None if there is a class without any.
        """
        learnt = [(e.embedding, self.label_of(e.image)) for e in in_force(self.entries) if e.action == LEARN]
        known = [(embedding, self.delta.label_of(name)) for embedding, name in learnt if name]
        if not known:
            return None
        embeddings, labels = (np.stack(column) for column in zip(*known, strict=True))
        way = len(self.delta.class_names)
        head = refitted(self.delta.head, self.kernels, embeddings, labels, since, way)
        return head and replace(self.delta, head=head)

    def forget(self, name: str) -> None:
        """Take class `name` out; raises what `forget` of a delta does.

        The embeddings of its images in the journal go as well, on trial with `Store.confirm`. Until that the
        delta before the one in use knows the class.
        """
        self.delta.label_of(name)  # which is there
        self._take(Entry(FORGET, name))
        self.fold()

    def rename(self, old: str, new: str) -> None:
        """Call class `old` by the name `new`; raises what `rename` of a delta does."""
        self.delta.label_of(old)
        self._take(Entry(RENAME, old, new_name=new))

    @property
    def marks(self) -> dict[str, str]:
        """The last value of each key that was learnt with a mark."""
        return watched(self.delta.report)["marks"]

    @property
    def is_fold_due(self) -> bool:
        """Whether there are so many entries that they should become a part of the delta."""
        return len(self.entries) >= FOLD_ENTRIES or (self.place is not None and self.place.end >= FOLD_BYTES)

    def fold(self) -> None:
        """Make the entries a part of the delta, as it is due now and then: none can be taken back then.

        Nothing is done on trial: the delta before learns from the journal if the trial goes back.
        """
        if self.start is not None and not self.start.confirmed:
            self.read_again()  # it may have been confirmed meanwhile
            if not self.start.confirmed:
                return
        if not self.entries:
            return
        try:
            if self.store is not None:
                self.place = self.store.fold(self.place, self.delta)
            self._begin(self.delta)
        except ChangedError:
            self.read_again()

    def read_again(self) -> None:
        """Go on from what the store holds now. Raises StorageError ``store-changed``."""
        self._go_on(self.store.peek())

    def _take(self, entry: Entry) -> None:
        before = states = None

        def suits(start: Start | None) -> None:
            nonlocal before, states
            if start is not None:
                known = self.start.before
                self._go_on(start)
                if entry.before is not None and start.before != known:
                    raise self._changed()
            before, states = self.delta.class_names, self._after(entry)

        if self.store is None:
            suits(None)
        else:
            self.place = self.store.append(self.place, entry, suits)
        self._states, self.delta = states, states[-1][1]
        self.entries.append(entry)
        moved = entry.action != RENAME and self.delta.class_names[: len(before)] != before
        if moved and self.monitor is not None:
            self.monitor.reset()

    def _after(self, entry: Entry) -> list[tuple[int, Delta]]:
        """The states with one more `entry`; those that have learnt what does not count any more are gone."""
        entries = [*self.entries, entry]
        before, force = in_force(self.entries), in_force(entries)
        pairs = enumerate(zip(before, force, strict=False))
        same = next((k for k, (a, b) in pairs if a is not b), min(len(before), len(force)))
        states = [state for state in self._states if state[0] <= same]
        known, delta = states[-1]
        new = [entry] if force and force[-1] is entry else []
        # What did not suit the delta when it was read is left out again.
        delta = replayed(self.kernels, delta, force[known : len(force) - len(new)], [])
        delta = marked(replayed(self.kernels, delta, new), entries)
        return [states[0], *states[1:][-STATES:], (len(force), delta)]

    def _go_on(self, start: Start) -> None:
        if start.delta is None or _network_of(start.delta) != _network_of(self.delta):
            raise self._changed()
        self.delta, self.place = start.delta, start.place
        self.start = replace(start, delta=None, base=None, journal=())
        self._begin(start.base, start.journal)

    def _changed(self) -> StorageError:
        text = f"another process has put another delta into {self.store.path}; start again to use that"
        return StorageError("store-changed", text)


def _network_of(delta: Delta) -> tuple:
    """What makes the embeddings of a delta: those of equal ones mean the same to their heads."""
    slices = (s for part in delta.parts for s in part.slices)
    return delta.backbone, [(s.layer, s.part, *(array.tobytes() for array in s.arrays())) for s in slices]
