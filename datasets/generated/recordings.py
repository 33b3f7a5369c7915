"""Generated recordings and texts, of other kinds than images, as files in a folder for each class."""

import os
from collections.abc import Sequence

from tinytrain.base.errors import UsageError
from tinytrain.datasets.generated import notes, shakes, sounds
from tinytrain.datasets.preview import write_classes

# What files are called, the classes, and the bytes of a file of (class, number, seed).
RECORDINGS = {
    notes.NAME: (".txt", tuple(notes.SENTENCES), notes.sentence),
    shakes.NAME: (".csv", tuple(shakes.CLASSES), shakes.recording_of),
    "words": (".wav", tuple(sounds.WORDS), sounds.word),
}


def export_recordings(
    name: str,
    folder: str | os.PathLike,
    per_class: int = 20,
    seed: int = 0,
    classes: Sequence[int] | None = None,
) -> int:
    """Write `per_class` files of each of the `classes` of RECORDINGS into new folders; returns how many.

    Raises UsageError or StorageError.
    """
    suffix, names, made = RECORDINGS[name]
    names = names if classes is None else [names[c] for c in classes]
    if per_class < 1 or not names:
        raise UsageError("usage", f"{per_class} recordings of {len(names)} classes; give at least 1 of 1")
    made(names[0], per_class, seed)  # before anything is written: there may not be so many
    numbers = range(1, per_class + 1)
    files = ((each, (made(each, number, seed) for number in numbers)) for each in names)
    return write_classes(folder, files, suffix, 3)
