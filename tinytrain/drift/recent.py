"""The last images of a stream whose labels are known, and the head that is fitted to them after a change.

The rule is that of hybrid adaptation (Disabato and Roveri, arXiv:2107.14759): every label is learnt, and if
a detector says that the stream has changed, what was learnt from images before the change is dropped.
"""

import numpy as np

from tinytrain.heads.head import DELTA_TAKES, FIT_TAKES, Batch, Head, HeadMethod, Support
from tinytrain.heads.repeats import copies_among

CAPACITY = 100  # images


class Recent:
    """The last `capacity` labelled embeddings, float32 of `size` values: capacity * (size + 1) * 4 bytes."""

    def __init__(self, size: int, capacity: int = CAPACITY):
        self.embeddings = np.zeros((capacity, size), np.float32)
        self.labels = np.zeros(capacity, np.int32)
        self.images = 0  # all that were ever added

    def __len__(self) -> int:
        return min(self.images, len(self.labels))

    def add(self, embedding: np.ndarray, label: int) -> None:
        """One more image, in place of the oldest one if there is no room."""
        place = self.images % len(self.labels)
        self.embeddings[place] = embedding / np.sqrt(embedding @ embedding + 1e-12)
        self.labels[place] = label
        self.images += 1

    def last(self, count: int) -> Batch:
        """Copies of the last `count` embeddings of length 1 with their labels, or of all; oldest first."""
        count = min(max(count, 0), len(self))
        places = np.arange(self.images - count, self.images) % len(self.labels)
        return self.embeddings[places], self.labels[places]


def refitted(head: Head, kernels, recent: Recent, since: int, way: int) -> Head | None:
    """A new head of `way` classes, of the method of `head`, fitted to the last `since` images of `recent`.

    A class without one of these keeps the latest image before them, or its mean if the head has means. None
    if there is a class with neither. The result is ready for updates, and takes the bytes that its method
    declares, beside those of `head`.
    """
    embeddings, labels = recent.last(since)
    older = {int(label): e for e, label in zip(*recent.last(len(recent)), strict=True)}
    missing = sorted(set(range(way)) - set(labels.tolist()))
    if (means := getattr(head, "means", None)) is not None:
        older = dict(enumerate(means)) | older
    if set(missing) - older.keys():
        return None
    if missing:
        embeddings = np.concatenate([np.stack([older[k] for k in missing]), embeddings])
        labels = np.concatenate([np.array(missing, np.int32), labels])
    return fitted(head.method, kernels, embeddings, labels).extended(way)


def fitted(method: HeadMethod, kernels, embeddings: np.ndarray, labels: np.ndarray) -> Head:
    """The head of `method` for embeddings (n, d) of any length with labels (n,), as a delta stores it.

    It does not see copies (`heads.repeats`), such as corrections of one thing again and again.
    """
    lengths = np.sqrt((embeddings * embeddings).sum(axis=1, keepdims=True) + 1e-12)
    unit, labels = np.ascontiguousarray(embeddings / lengths, np.float32), labels.astype(np.int32)
    seen = ~copies_among(unit, labels)
    unit, labels = unit[seen], labels[seen]
    images = np.bincount(labels)
    arrays = {b: b.allocate() for b in method.buffers_for(len(images), unit.shape[1], len(labels))}

    def those(lifetimes):
        return {b.name: array for b, array in arrays.items() if b.lifetime in lifetimes}

    def batches():
        yield unit, labels

    head = method.fit(kernels, those(FIT_TAKES), Support(batches, batches, images))
    return head.for_delta(those(DELTA_TAKES))
