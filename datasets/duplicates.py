"""Images that are there more than once: files of the same bytes, and images of the same pixels."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinytrain.episode import Input
from tinytrain.episode.episode import Episode, Images
from tinytrain.episode.holding import fits
from tinytrain.episode.input_facts import CLASSES, ONE_CLASS, SIDES, Duplicate


def same_files(paths: Sequence[Path]) -> np.ndarray | None:
    """A number for each file, (n,) int32, equal for files of equal bytes; None if all files differ.

    Only files of equal length are read.
    """
    sizes: dict[int, list[int]] = {}
    for i, path in enumerate(paths):
        try:
            sizes.setdefault(path.stat().st_size, []).append(i)
        except OSError:
            continue  # reading the image says what is wrong
    numbers = np.arange(len(paths), dtype=np.int32)
    for alike in sizes.values():
        first: dict[bytes, int] = {}
        for i in alike if len(alike) > 1 else ():
            numbers[i] = first.setdefault(_digest(paths[i]) or b"%d" % i, i)
    return numbers if len(set(numbers.tolist())) < len(numbers) else None


def _digest(path: Path) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return None


def same_pixels(sides: Iterable[Images], given: Input) -> list[list[int]]:
    """Places of the images that are the same, pixel for pixel; those of the `sides` follow each other."""
    found: dict[bytes, list[int]] = {}
    every = ((images, i) for images in sides for i in range(len(images)))
    for place, (images, i) in enumerate(every):
        digest = hashlib.sha256(np.ascontiguousarray(images.image(i, given))).digest()
        found.setdefault(digest, []).append(place)
    return [alike for alike in found.values() if len(alike) > 1]


def unrepeated(episode: Episode, given: Input) -> Episode:
    """A decoded `episode` without queries that are copies, pixel for pixel; its `duplicates` name them.

    Nothing changes if the images take too much memory to be kept decoded: all would be decoded once more.
    """
    if not fits(len(episode.support) + len(episode.query), given):
        return episode
    query, found = without_copies(episode.readable, episode.query, given, episode.class_names)
    return replace(episode, query=query, duplicates=merged(episode.duplicates, found))


def without_copies(
    support: Images, query: Images, given: Input, class_names: Sequence[str]
) -> tuple[Images, list[Duplicate]]:
    """`query` with each image of a class once, none of the `support`, and all images met more than once."""
    names, labels = (*support.names, *query.names), (*support.labels.tolist(), *query.labels.tolist())
    found, seen, first = [], set(), len(support)
    for places in same_pixels((support, query), given):
        of_support = {labels[place] for place in places if place < first}
        held_out, met = [place for place in places if place >= first], set(of_support)
        for place in held_out:
            if labels[place] in met:
                seen.add(place - first)
            met.add(labels[place])
        both_sides = any(labels[place] in of_support for place in held_out)
        classes = [class_names[labels[place]] for place in places]
        found.append(duplicate([names[place] for place in places], classes, both_sides))
    if seen:
        query = query.take([i for i in range(len(query)) if i not in seen])
    return query, found


def merged(first: Iterable[Duplicate], more: Iterable[Duplicate]) -> tuple[Duplicate, ...]:
    """Both, without those whose files one of the others names as well."""
    first, more = tuple(first), tuple(more)
    more = tuple(m for m, inside in zip(more, _inside(more, first), strict=True) if inside != "part")
    return (*(d for d, inside in zip(first, _inside(first, more), strict=True) if not inside), *more)


def _inside(some: Sequence[Duplicate], others: Sequence[Duplicate]) -> list[str]:
    """For each of `some` "all" or "part" if its files are that of the files of one of `others`, else ""."""
    places = {file: k for k, d in enumerate(others) for file in d.files}  # a file is in one of them at most
    inside = []
    for d in some:
        found = {places.get(file) for file in d.files}
        k = found.pop() if len(found) == 1 else None
        inside.append("" if k is None else "all" if len(others[k].files) == len(d.files) else "part")
    return inside


def repeated(names: Sequence[str], classes: Sequence[str], numbers: np.ndarray | None) -> list[Duplicate]:
    """The files that share a number; `names` and `classes` of each file."""
    if numbers is None:
        return []
    members: dict[int, list[int]] = {}
    for i, number in enumerate(numbers.tolist()):
        members.setdefault(number, []).append(i)
    return [
        duplicate([names[i] for i in alike], [classes[i] for i in alike])
        for alike in members.values()
        if len(alike) > 1
    ]


def duplicate(files: Sequence[str], classes: Sequence[str], both_sides: bool = False) -> Duplicate:
    where = CLASSES if len(set(classes)) > 1 else SIDES if both_sides else ONE_CLASS
    return Duplicate(tuple(files), tuple(classes), where)


def groups_of(numbers: np.ndarray | None, labels: Sequence[int]) -> np.ndarray | None:
    """The groups of a `Dataset`: copies inside a class; None if there are none."""
    if numbers is None:
        return None
    first: dict[tuple[int, int], int] = {}
    pairs = zip(labels, numbers.tolist(), strict=True)
    groups = np.array([first.setdefault(pair, i) for i, pair in enumerate(pairs)], dtype=np.int32)
    return groups if len(first) < len(groups) else None
