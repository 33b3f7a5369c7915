"""What the entries of a journal do to a delta: the same steps when they are learnt and when they are read."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tinytrain.base.class_names import MAX_CLASSES, wrong_more_names
from tinytrain.base.errors import InputError
from tinytrain.delta.classes import after_forgetting, forget, rename
from tinytrain.delta.delta import Delta
from tinytrain.store.journal import FORGET, LEARN, RENAME, UNDO, Entry

WATCHED = "watched"  # what the report of a delta says of entries that became a part of it
JUDGED = 10  # corrections by which a trial is judged
REMEMBERED = 8192  # labels of images, and marks, that a report holds at most: a header has room for 1 MB


def replayed(kernels, delta: Delta, entries: Sequence[Entry], warnings: list[str] | None = None) -> Delta:
    """`delta` after all `entries`, in order, as if what was taken back or replaced had never been learnt.

    `delta` itself is not changed. A class that would not be there then is not renamed. An entry that does not
    suit the delta, as others are damaged, is left out and named in `warnings`. Without those, raises
    InputError, as `forget` and `rename` do.
    """
    for entry in in_force(entries):
        try:
            delta = _done(kernels, delta, entry)
        except InputError as error:
            if warnings is None:
                raise
            warnings.append(f"a correction of {entry.name!r} is left out ({error.message})")
    return marked(delta, entries)


def _done(kernels, delta: Delta, entry: Entry) -> Delta:
    if entry.action == LEARN:
        return _corrected(kernels, delta, entry)
    forgets = entry.action == FORGET
    if unicodedata.normalize("NFC", entry.name) not in delta.class_names:
        return replace(delta, report=after_forgetting(delta.report)) if forgets else delta
    return forget(delta, entry.name) if forgets else rename(delta, entry.name, entry.new_name)


def standing(entries: Iterable[Entry]) -> list[Entry]:
    """The entries without labels that were taken back, and without what took them back."""
    found: list[Entry] = []
    for entry in entries:
        if entry.action != UNDO:
            found.append(entry)
            continue
        labels = (k for k in reversed(range(len(found))) if _is_label(found[k], entry.image))
        if (last := next(labels, None)) is not None:
            del found[last]
    return found


def in_force(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that count: of the labels of an image the last one that was not taken back.

    A label does not count if its class was forgotten since, under whatever name.
    """
    found, named = standing(entries), unicodedata.normalize
    last = {entry.image: entry for entry in found if entry.action == LEARN}
    counting: list[tuple[Entry, str | None]] = []  # and of labels the name that the class has by now
    for entry in found:
        name = named("NFC", entry.name)
        if entry.action == LEARN and entry.image and last[entry.image] is not entry:
            continue
        if entry.action == FORGET:
            counting = [(e, now) for e, now in counting if now != name]
        elif entry.action == RENAME:
            counting = [(e, named("NFC", entry.new_name) if now == name else now) for e, now in counting]
        counting.append((entry, name if entry.action == LEARN else None))
    return [entry for entry, _ in counting]


def watched(report: dict) -> dict:
    """What the `report` of a delta says of corrections.

    "corrections": how many images of each class were learnt; "labels": the digests of images that are of each
    class now; "marks": the last value of each key. Of the last two it has the newest REMEMBERED. "right":
    whether the last images that were corrected had been right, JUDGED at most.
    """
    return {"corrections": {}, "labels": {}, "marks": {}, "right": [], **report.get(WATCHED, {})}


def _is_label(entry: Entry, image: str) -> bool:
    return entry.action == LEARN and entry.image == image


def _corrected(kernels, delta: Delta, entry: Entry) -> Delta:
    """An embedding counts as one image does: as often as there were views of each. A new class is added."""
    name, names = unicodedata.normalize("NFC", entry.name), delta.class_names
    if name not in names:
        wrong, names = wrong_more_names(names, [name]), (*names, name)
        if len(names) > MAX_CLASSES:
            wrong = f"{len(names)} classes are more than {MAX_CLASSES}"
        if wrong:
            raise InputError("class-names", f"{wrong}; call it otherwise")
    size = delta.head.embedding_size
    if entry.embedding.shape != (size,):
        text = f"an embedding of {entry.embedding.size} values was learnt, the head takes {size}"
        raise InputError("backbone-mismatch", f"{text}; use the network that the delta was made for")
    rows = np.tile(entry.embedding / length_of(entry.embedding), (delta.views, 1)).astype(np.float32)
    head = delta.head.extended(len(names))
    head.update(kernels, rows, np.full(delta.views, names.index(name), np.int32))
    return replace(delta, head=head, class_names=names, report=_counted(delta, name, entry))


def length_of(embedding: np.ndarray) -> float:
    """Length of an embedding (d,), never 0."""
    return float(np.sqrt(np.square(embedding, dtype=np.float64).sum() + 1e-12))


def _counted(delta: Delta, name: str, entry: Entry) -> dict:
    """The report, which also says that the image of `entry` was learnt, and is of class `name` now."""
    known, image = watched(delta.report), entry.image
    counts = {**known["corrections"], name: known["corrections"].get(name, 0) + 1}
    labels = {n: [i for i in images if i != image] for n, images in known["labels"].items()}
    labels[name] = [*labels.get(name, ()), *([image] if image else ())]
    while sum(map(len, labels.values())) > REMEMBERED:
        del max(labels.values(), key=len)[0]
    right = known["right"] if entry.right is None else [*known["right"], entry.right][-JUDGED:]
    found = {**known, "corrections": counts, "labels": labels, "right": right}
    return {**delta.report, WATCHED: found}


def marked(delta: Delta, entries: Iterable[Entry]) -> Delta:
    """`delta` that knows the marks of `entries`, whether these count or not."""
    known = watched(delta.report)
    marks = dict(known["marks"])
    for key, _, value in (entry.mark.partition(":") for entry in entries if entry.mark):
        marks.pop(key, None)  # so that the newest are the last
        marks[key] = value
    marks = dict(list(marks.items())[-REMEMBERED:])
    return replace(delta, report={**delta.report, WATCHED: {**known, "marks": marks}})
