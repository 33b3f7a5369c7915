"""A target set, or one part of its classes, as a Dataset."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError, UsageError
from tinytrain.datasets.dataset import Dataset, subset
from tinytrain.datasets.meta_dataset.classes import PARTS, classes_of
from tinytrain.datasets.meta_dataset.registry import TARGETS, Target


def open_target(name: str, folder: str | os.PathLike, part: str = "test") -> Dataset:
    """The classes of `part` of the set `name`, whose download lies in `folder` or in its usual place below.

    Parts: ``test`` (Meta-Dataset's test classes), ``all``, and with a splits file in the folder ``train`` and
    ``valid``. Images are found by name and decoded one at a time. Raises InputError with code
    ``file-missing`` or ``file-damaged`` and UsageError for another name or part.
    """
    if name not in TARGETS or part not in PARTS:
        raise UsageError(
            "unknown-name",
            f"{part!r} of {name!r} is not known; sets: {', '.join(TARGETS)}; parts: {', '.join(PARTS)}",
        )
    target = TARGETS[name]
    root = find_root(target, Path(folder))
    if root is None:
        raise InputError(
            "file-missing",
            f"{str(folder)!r} holds no {name}: no {' or '.join(target.mark)} there or in {target.folder!r}; "
            f"unpack {', '.join(target.download.files)} from {target.download.address}",
        )
    return contents(name, root, part)[0]


def contents(name: str, root: Path, part: str) -> tuple[Dataset, list[str]]:
    """What the folder `root` holds of a part of the set `name`, and names of classes that are not there.

    Raises InputError.
    """
    target = TARGETS[name]
    listing = target.listing(root)
    chosen, absent = classes_of(target.meta_name, root, part, listing.class_names)
    if not chosen:
        raise InputError(
            "file-damaged",
            f"{str(root)!r} has 0 of {len(absent)} classes of part {part!r} of {name}; fetch it again",
        )
    return subset(whole(name, target, listing), chosen, name), absent


def whole(name: str, target: Target, listing: Dataset) -> Dataset:
    """All classes of a listing of the set `name`."""
    families = None
    if target.alphabets:
        alphabets = [class_name.partition("/")[0] for class_name in listing.class_names]
        families = np.unique(alphabets, return_inverse=True)[1].astype(np.int32)
    facts = replace(listing.provenance, licence=target.download.licence, citation=target.download.citation)
    return replace(listing, name=name, families=families, may_flip=target.may_flip, provenance=facts)


def find_root(target: Target, folder: Path) -> Path | None:
    """`folder`, or the usual place of the set below it, whichever looks like the set."""
    for root in (folder, folder / target.folder):
        if any(next(root.glob(mark), None) is not None for mark in target.mark):
            return root
    return None
