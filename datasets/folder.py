"""A folder of images, one folder per class, to a `Dataset` and to an `Episode`.

Files that cannot be used are listed with the reason and left out, and so are images beside the class
folders and folders inside them; only a class without any image left is an error. Hidden files are
passed over.
"""

import os
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.samplers import shuffled
from tinytrain.episode.decode import SUFFIXES, check_image, load_image
from tinytrain.episode.episode import Episode

# Without `shots`, a FRACTION of each class is held out, at most MOST_HELD_OUT images, if every class has
# ENOUGH. If that makes fewer than LEAST_HELD_OUT images, cross-validation of the support says as much.
ENOUGH, FRACTION, MOST_HELD_OUT, LEAST_HELD_OUT = 10, 0.2, 20, 20


def folder_dataset(folder: str | os.PathLike, may_flip: bool = False) -> Dataset:
    """All usable images below `folder`, classes in the order of their sorted names.

    `skipped` of the result lists the files that cannot be used. Raises InputError with code
    ``folder-missing``, ``no-classes``, ``same-class`` or ``empty-class``.
    """
    if not os.fspath(folder):
        raise InputError("folder-missing", "'' is no folder; give the path of one")
    root = Path(folder)
    classes, skipped = _class_folders(root)
    paths, labels = [], []
    for label, class_folder in enumerate(classes):
        good, bad = _images_in(class_folder)
        if not good:
            reason = f"; {len(bad)} were skipped, the first: {bad[0][1]}" if bad else ""
            name = _class_name(class_folder)
            raise InputError(
                "empty-class", f"class {name!r} has 0 usable images{reason}; add some or remove it"
            )
        paths += good
        labels += [label] * len(good)
        skipped += bad
    return Dataset(
        name=printable(root.resolve().name),
        labels=np.array(labels, dtype=np.int32),
        class_names=tuple(map(_class_name, classes)),
        names=tuple(printable(p.relative_to(root)) for p in paths),
        read=lambda i, size: load_image(paths[i], size),
        may_flip=may_flip,
        provenance=Provenance(licence="yours", skipped=tuple(skipped)),
    )


def folder_episode(
    source: str | os.PathLike | Dataset,
    shots: int | None = None,
    way: int | None = None,
    seed: int = 0,
    may_flip: bool = False,
    hold_out: bool = True,
) -> Episode:
    """Up to `shots` images per class as support, drawn at random; the others are queries.

    Without `shots`, `held_out` says how many images of each class are queries, none unless `hold_out`.
    Without `way` every class takes part, otherwise `way` classes drawn at random. A class may have fewer
    images than `shots`. `source` is a folder or the result of `folder_dataset`, which keeps its own
    `may_flip`. Raises InputError when there are fewer classes than `way` or fewer than two, and UsageError
    for `shots` below 1 or `way` below 2.
    """
    if (shots is not None and shots < 1) or (way is not None and way < 2):
        raise UsageError("bad-episode", f"{way} ways and {shots} shots given; needed are at least 2 and 1")
    dataset = source if isinstance(source, Dataset) else folder_dataset(source, may_flip)
    if way is not None and dataset.n_classes < way:
        raise InputError(
            "too-few-classes",
            f"{dataset.name!r} has {dataset.n_classes} classes, {way} are needed; add classes",
        )
    classes = np.arange(dataset.n_classes)
    if way is not None:
        classes = np.sort(shuffled(classes, rng_for(seed, "folder classes"))[:way])
    # A stream per class name: adding a class leaves the draws of the others as they were.
    drawn = [shuffled(dataset.by_class[c], rng_for(seed, "folder", dataset.class_names[c])) for c in classes]
    held = held_out([len(d) for d in drawn]) if shots is None and hold_out else [0] * len(drawn)
    limits = [len(d) - h if shots is None else shots for d, h in zip(drawn, held, strict=True)]
    given = f"shots {shots or ('all but a fifth' if any(held) else 'all')}"
    return Episode(
        support=dataset.images([d[:limit] for d, limit in zip(drawn, limits, strict=True)]),
        query=dataset.images([d[limit:] for d, limit in zip(drawn, limits, strict=True)]),
        class_names=tuple(dataset.class_names[c] for c in classes),
        may_flip=dataset.may_flip,
        source=f"{dataset.name}: {len(classes)} classes, {given}, seed {seed}",
    )


def held_out(counts: list[int]) -> list[int]:
    """How many images of each class are held out by default, of so many `counts`; 0 where they are few.

    >>> held_out([20, 40, 400]), held_out([10, 10]), held_out([9, 400])
    ([4, 8, 20], [0, 0], [0, 0])
    """
    held = [min(MOST_HELD_OUT, int(FRACTION * count)) for count in counts]
    return held if min(counts) >= ENOUGH and sum(held) >= LEAST_HELD_OUT else [0] * len(counts)


def printable(path: str | os.PathLike) -> str:
    """A file name as text that can be printed and stored: bytes that are no UTF-8 become ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _class_name(folder: Path) -> str:
    """The name of a class in composed letters, which file systems of other computers take apart."""
    return unicodedata.normalize("NFC", printable(folder.name))


def _class_folders(root: Path) -> tuple[list[Path], list[tuple[str, str]]]:
    """The folders of the classes by name, and (path, reason) of the images that lie beside them."""
    try:
        entries = sorted(p for p in root.iterdir() if not p.name.startswith("."))
    except OSError as error:
        raise InputError(
            "folder-missing", f"{str(root)!r} cannot be listed ({error.strerror}); check the path"
        ) from error
    classes = sorted((p for p in entries if p.is_dir()), key=_class_name)
    for name, next_name in pairwise(map(_class_name, classes)):
        if name == next_name:
            raise InputError(
                "same-class",
                f"{str(root)!r} has two folders for class {name!r}, which differ only in how"
                " letters are encoded; put their images together",
            )
    beside = [p for p in entries if p.suffix.lower() in SUFFIXES and p not in classes]
    if not classes:
        raise InputError(
            "no-classes",
            f"{str(root)!r} has 0 class folders and {len(beside)} images; make one folder per class",
        )
    return classes, [(printable(p), "lies beside the class folders") for p in beside]


def _images_in(folder: Path) -> tuple[list[Path], list[tuple[str, str]]]:
    """Usable images of one class, sorted by name, and (path, reason) of the other files."""
    try:
        entries = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    except OSError as error:
        return [], [(printable(folder), f"cannot be listed ({error.strerror})")]
    good, bad = [], []
    for path in entries:
        if path.is_dir():
            bad.append((printable(path), "is a folder inside a class"))
            continue
        if path.suffix.lower() not in SUFFIXES:
            bad.append((printable(path), f"has a name that does not end in {', '.join(SUFFIXES)}"))
            continue
        try:
            check_image(path)
            good.append(path)
        except InputError as error:
            bad.append((printable(path), str(error).removeprefix(f"{error.code}: {os.fspath(path)!r} ")))
    return good, bad
