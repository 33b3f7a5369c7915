"""A folder of images, or of another kind of input, one folder per class, to a `Dataset` and to an `Episode`.

Files that cannot be used are listed with the reason and left out, and so are images beside the class
folders and folders inside them; only a class without any image left is an error. Hidden files, and what
systems leave in folders, are passed over.
"""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tinytrain.base.class_names import BACKGROUND, background_in
from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.duplicates import groups_of, repeated, same_files
from tinytrain.datasets.folder_layout import (
    INSIDE,
    class_folders,
    class_name,
    listed,
    printable,
)
from tinytrain.datasets.samplers import shuffled
from tinytrain.datasets.sentences import is_table, table_dataset
from tinytrain.episode.episode import Episode, episode_type
from tinytrain.episode.input_facts import Skipped
from tinytrain.episode.kind import Kind
from tinytrain.episode.kinds import kind_of, kind_of_files

# Code of an error -> kind of `Skipped`.
KINDS = {
    "image-unreadable": "damaged",
    "image-too-large": "too-large",
    "package-missing": "decoder",
    "system": "decoder",
}

# Without `shots`, a FRACTION of each class is held out, at most MOST_HELD_OUT images, if every class has
# ENOUGH. If that makes fewer than LEAST_HELD_OUT images, cross-validation of the support says as much.
ENOUGH, FRACTION, MOST_HELD_OUT, LEAST_HELD_OUT = 10, 0.2, 20, 20


def folder_dataset(
    folder: str | os.PathLike, may_flip: bool = False, background: str | os.PathLike | None = None
) -> Dataset:
    """All usable images below `folder`, classes in the order of their sorted names.

    They may be of another kind, which their files tell; a mixture of kinds is ``folder-layout``. A table of
    texts stands for a folder of them. The folder `background` is one class more, BACKGROUND by its name.
    `skipped` of the result lists the files that cannot be used. Raises InputError with code ``file-missing``,
    ``folder-layout``, ``class-names`` or ``too-few-images``. Files of the same bytes in one class are one
    group: an episode has them on one side.
    """
    if not os.fspath(folder):
        raise InputError("file-missing", "'' is no folder; give the path of one")
    if is_table(folder):
        if background is not None:
            text = f"--background has no effect for {os.fspath(folder)!r}; label rows {BACKGROUND!r} in it"
            raise UsageError("usage", text)
        return table_dataset(folder)
    root = Path(folder)
    classes, skipped = class_folders(root)
    class_names = tuple(map(class_name, classes))
    if background is not None:
        own, path = BACKGROUND in class_names, os.fspath(background)
        if own or not os.path.isdir(path):
            fact = f"{str(root)!r} has a folder {BACKGROUND} itself" if own else f"{path!r} is no folder"
            raise InputError("folder-layout", f"{fact}; give one background")
        classes, class_names = [*classes, Path(background)], (*class_names, BACKGROUND)
    found = [_listed(class_folder) for class_folder in classes]
    kind = kind_of_files(str(root), (p for files, _ in found for p in files if not p.is_dir()))
    paths, labels = [], []
    for label, (name, (files, away)) in enumerate(zip(class_names, found, strict=True)):
        good, bad = _usable(files, kind)
        bad = away + bad
        if not good:
            reason = f"; {len(bad)} were skipped, the first: {bad[0].reason}" if bad else ""
            raise InputError(
                "too-few-images", f"class {name!r} has 0 usable {kind.plural}{reason}; add some or remove it"
            )
        paths += good
        labels += [label] * len(good)
        skipped += bad
    names = tuple(printable(p.relative_to(root) if p.is_relative_to(root) else p) for p in paths)
    copies = same_files(paths)
    duplicates = tuple(repeated(names, [class_names[label] for label in labels], copies))
    return Dataset(
        name=printable(root.resolve().name),
        labels=np.array(labels, dtype=np.int32),
        class_names=class_names,
        names=names,
        read=partial(_read, paths, kind.name),
        kind=kind.name,
        groups=groups_of(copies, labels),
        may_flip=may_flip,
        provenance=Provenance(
            folder=os.fspath(folder), licence="yours", skipped=tuple(skipped), duplicates=duplicates
        ),
    )


def _read(paths: Sequence[Path], kind: str, i: int, asked) -> np.ndarray:
    return kind_of(kind).read(paths[i], asked)


def folder_episode(
    source: str | os.PathLike | Dataset,
    shots: int | None = None,
    way: int | None = None,
    seed: int = 0,
    may_flip: bool = False,
    hold_out: int | None = None,
    least_classes: int = 2,
) -> Episode:
    """Up to `shots` images per class as support, drawn at random; of the others `hold_out` are queries.

    Without `hold_out` all others are queries. Without `shots`, `hold_out` images of each class are queries,
    but never the last one of it, and the others are support; by default as many as `held_out` says.
    Of the background, which does not count in `shots` and `way`, those that are not held out are support.
    Images of one group, such as copies, never lie on both sides. Only one of them is a query, and with
    `shots` the support has a second one only if the class has too few groups.
    Without `way` every class takes part, otherwise `way` classes drawn at random. A class may have fewer
    images than `shots`. If `least_classes` is 1, there may be one class alone, of which none is held out.
    `source` is a folder or the result of `folder_dataset`, which keeps its own `may_flip`. Raises InputError
    when there are fewer classes than `way` or `least_classes`, and UsageError for `shots` below 1, `way`
    below 2 or `hold_out` below 0.
    """
    if (shots is not None and shots < 1) or (way is not None and way < 2) or (hold_out or 0) < 0:
        numbers = f"{way} ways, {shots} shots and {hold_out} held out"
        raise UsageError("usage", f"{numbers} given; needed are at least 2, 1 and 0")
    dataset = source if isinstance(source, Dataset) else folder_dataset(source, may_flip)
    classes, beside = np.arange(dataset.n_classes), background_in(dataset.class_names)
    answers = classes[classes != beside]
    if way is not None and len(answers) < way:
        raise InputError(
            "too-few-classes",
            f"{dataset.name!r} has {len(answers)} classes, {way} are needed; add classes",
        )
    if way is not None:
        left = shuffled(answers, rng_for(seed, "folder classes"))[way:]
        classes = np.setdiff1d(classes, left)
    # A stream per class name: adding a class leaves the draws of the others as they were.
    drawn = [shuffled(dataset.by_class[c], rng_for(seed, "folder", dataset.class_names[c])) for c in classes]
    groups = np.arange(len(dataset)) if dataset.groups is None else dataset.groups
    if len(classes) == 1 and least_classes == 1:  # it could not be mistaken for another one
        hold_out = 0
    most = [None if c == beside else shots for c in classes]
    support, query = _divided(drawn, groups, most, hold_out)
    rest = (
        "all"
        if not any(map(len, query))
        else "all but a fifth"
        if hold_out is None
        else f"all but {hold_out}"
    )
    return episode_type(least_classes)(
        support=dataset.images(support),
        query=dataset.images(query),
        class_names=tuple(dataset.class_names[c] for c in classes),
        may_flip=dataset.may_flip,
        skipped=dataset.provenance.skipped,
        duplicates=dataset.provenance.duplicates,
        source=f"{dataset.name}: {_classes(len(classes))}, shots {shots or rest}, seed {seed}",
    )


def _classes(count: int) -> str:
    return f"{count} class{'es' if count > 1 else ''}"


def _divided(
    drawn: list[np.ndarray], groups: np.ndarray, shots: list[int | None], hold_out: int | None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Support and query indices of each class from its indices in random order; see `folder_episode`.

    `shots` are those of each class, None for all.
    """
    firsts = [np.sort(np.unique(groups[of_class], return_index=True)[1]) for of_class in drawn]
    single = [of_class[first] for of_class, first in zip(drawn, firsts, strict=True)]  # one of each group
    counts = [len(of_class) for of_class in single]
    if any(shots):
        held = [0] * len(counts)
    elif hold_out is None:
        held = held_out(counts)
    else:
        held = [min(hold_out, count - 1) for count in counts]
    support = []
    for of_class, first, one, n, most in zip(drawn, firsts, single, held, shots, strict=True):
        ordered = np.concatenate([one, np.delete(of_class, first)])
        kept = ~np.isin(groups[ordered], groups[one[len(one) - n :]])
        support.append(ordered[kept][:most])
    used = groups[np.concatenate(support)]
    query = [one[~np.isin(groups[one], used)][:hold_out] for one in single]
    return support, query


def held_out(counts: list[int]) -> list[int]:
    """How many images of each class are held out by default, of so many `counts`; 0 where they are few.

    >>> held_out([20, 40, 400]), held_out([10, 10]), held_out([9, 400])
    ([4, 8, 20], [0, 0], [0, 0])
    """
    held = [min(MOST_HELD_OUT, int(FRACTION * count)) for count in counts]
    return held if min(counts) >= ENOUGH and sum(held) >= LEAST_HELD_OUT else [0] * len(counts)


def _listed(folder: Path) -> tuple[list[Path], list[Skipped]]:
    """The files of one class, sorted by name, and what is passed over."""
    try:
        return listed(folder)
    except OSError as error:
        return [], [Skipped(printable(folder), f"cannot be listed ({error.strerror})", "unreadable")]


def _usable(files: list[Path], kind: Kind) -> tuple[list[Path], list[Skipped]]:
    """Those of the `files` of a class that are of this kind and look whole, and the others."""
    good, bad = [], []
    for path in files:
        if reason := _reason(path, kind):
            bad.append(Skipped(printable(path), *reason))
        else:
            good.append(path)
    return good, bad


def _reason(path: Path, kind: Kind) -> tuple[str, str] | None:
    """(reason, kind) if the file cannot be used, or is a folder."""
    if path.is_dir():
        return INSIDE, "inside"
    if not kind.owns(path):
        return kind.why_not(path), "other-kind"
    try:
        kind.check(path)
    except InputError as error:
        return str(error).removeprefix(f"{error.code}: {os.fspath(path)!r} "), reason_kind(error)
    return None


def reason_kind(error: InputError) -> str:
    """The kind of `Skipped` of an image that raised `error`."""
    if "cannot be read" in error.message:
        return "unreadable"
    return KINDS.get(error.code, "unreadable")


def late(dataset: Dataset, broken: dict[str, str]) -> Iterator[Skipped]:
    """The images of `dataset` that looked whole and were not: `broken` has the error of each name."""
    for name, error in broken.items():
        code, _, message = error.partition(": ")
        file = os.path.join(dataset.provenance.folder, name)
        yield Skipped(file, message.removeprefix(f"{file!r} "), KINDS.get(code, "damaged"))
