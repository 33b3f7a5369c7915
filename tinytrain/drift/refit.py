"""The head that is fitted to the images since a change of a stream.

The rule is that of hybrid adaptation (Disabato and Roveri, arXiv:2107.14759): every label is learnt, and if
a detector says that the stream has changed, what was learnt from images before the change is dropped.
"""

from collections.abc import Callable

import numpy as np

from tinytrain.heads.head import FIT_TAKES, FITTING, Head, HeadMethod, Support
from tinytrain.heads.repeats import copies_among


def refitted(
    head: Head, kernels, embeddings: np.ndarray, labels: np.ndarray, since: int, way: int
) -> Head | None:
    """A head of `way` classes, of the method of `head`, that is fitted to the last `since` of the images.

    These have embeddings (n, d), any length, and labels (n,), the oldest first. A class without
    one of the last keeps the latest image before them, or its mean if the head has means. None if there is a
    class with neither. The result is ready for updates, and takes the bytes that its method declares, beside
    those of `head`.
    """
    older = dict(zip(labels.tolist(), embeddings, strict=True))
    embeddings, labels = embeddings[-since:], labels[-since:]
    missing = sorted(set(range(way)) - set(labels.tolist()))
    if (means := getattr(head, "means", None)) is not None:
        older = dict(enumerate(means)) | older
    if set(missing) - older.keys():
        return None
    if missing:
        embeddings = np.concatenate([np.stack([older[k] for k in missing]), embeddings])
        labels = np.concatenate([missing, labels])
    background = head.limit and head.limit.background
    return fitted(head.method, kernels, embeddings, labels, background).extended(way)


def fitted(
    method: HeadMethod,
    kernels,
    embeddings: np.ndarray,
    labels: np.ndarray,
    background: int | None = None,
    judge: Callable[[np.ndarray, int], None] | None = None,
) -> Head:
    """The head of `method` for embeddings (n, d) of any length with labels (n,), as a delta stores it.

    The class `background` is never its answer, and `judge` is that of `Support`. It does not see copies
    (`heads.repeats`), such as corrections of one thing again and again.
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

    head = method.fit(kernels, those(FIT_TAKES), Support(batches, batches, images, 0, judge, background))
    return head.for_delta(those((FITTING,))).knowing(background)
