"""What the entries of a journal do to a delta: the same steps when they are learnt and when they are read."""

import unicodedata
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tinytrain.base.class_names import MAX_CLASSES, wrong_class_names
from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta
from tinytrain.delta.forget import forget
from tinytrain.delta.rename import rename
from tinytrain.store.journal import FORGET, RENAME, Entry

WATCHED = "watched"  # what the report of a delta says of entries that became a part of it


def learnt(kernels, delta: Delta, entry: Entry) -> Delta:
    """`delta` after `entry`; `delta` itself is not changed.

    An embedding counts as one image does: as often as there were views of each. An unknown class is added.
    Raises InputError if the entry does not suit the delta, as `forget` and `rename` do.
    """
    if entry.action == FORGET:
        return _named(forget(delta, entry.name), {entry.name: None})
    if entry.action == RENAME:
        return _named(rename(delta, entry.name, entry.new_name), {entry.name: entry.new_name})
    return _corrected(kernels, delta, entry)


def replayed(kernels, delta: Delta, entries: Iterable[Entry]) -> Delta:
    """`delta` after all `entries`, in order."""
    for entry in entries:
        delta = learnt(kernels, delta, entry)
    return delta


def _corrected(kernels, delta: Delta, entry: Entry) -> Delta:
    name, names = unicodedata.normalize("NFC", entry.name), delta.class_names
    if name not in names:
        names = (*names, name)
        wrong = wrong_class_names(names)
        if len(names) > MAX_CLASSES:
            wrong = f"{len(names)} classes are more than {MAX_CLASSES}"
        if wrong:
            raise InputError("class-names", f"{wrong}; give every class a name of its own")
    size = delta.head.embedding_size
    if entry.embedding.shape != (size,):
        text = f"an embedding of {entry.embedding.size} values was learnt, the head takes {size}"
        raise InputError("journal-entry", f"{text}; use the network that the delta was made for")
    rows = np.tile(entry.embedding / length_of(entry.embedding), (delta.views, 1)).astype(np.float32)
    head = delta.head.extended(len(names))
    head.update(kernels, rows, np.full(delta.views, names.index(name), np.int32))
    return replace(delta, head=head, class_names=names, report=_counted(delta.report, name, entry.mark))


def length_of(embedding: np.ndarray) -> float:
    """Length of an embedding (d,), never 0."""
    return float(np.sqrt(np.square(embedding, dtype=np.float64).sum() + 1e-12))


def _counted(report: dict, name: str, mark: str) -> dict:
    """`report` that also says of how many images class `name` was corrected, and the last mark."""
    watched = report.get(WATCHED, {"corrections": {}, "mark": ""})
    counts = watched["corrections"]
    counts = {**counts, name: counts.get(name, 0) + 1}
    return {**report, WATCHED: {"corrections": counts, "mark": mark or watched["mark"]}}


def _named(delta: Delta, names: dict[str, str | None]) -> Delta:
    """`delta` whose counts of corrections have other names; None for a class that is gone."""
    watched = delta.report.get(WATCHED)
    if watched is None:
        return delta
    counts = {names.get(name, name): count for name, count in watched["corrections"].items()}
    counts.pop(None, None)
    return replace(delta, report={**delta.report, WATCHED: {**watched, "corrections": counts}})
