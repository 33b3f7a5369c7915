"""A labelled collection of images to draw episodes from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from tinytrain.base.errors import one_line
from tinytrain.episode.episode import Images, read_chosen
from tinytrain.episode.input_facts import Duplicate, Skipped
from tinytrain.episode.kinds import IMAGES


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where images come from: `generated` ones are drawn by this project. `skipped` lists unusable files,
    `duplicates` files with the same image. The names of the images count from `folder`, if they are files.
    """

    folder: str = ""
    licence: str = ""
    citation: str = ""
    skipped: tuple[Skipped, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    generated: bool = False


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images with classes, wherever they lie.

    `labels` is (n,) int32 into `class_names`; `names` identifies each image for people;
    `read(i, size)` returns image i as uint8 (size, size, 3) RGB. `groups` is (n,) int32 or
    None: images of one group show the same physical thing or voice, and an episode never has
    one of them in the support and another in the query. `families` is (n_classes,) int32 or
    None: classes that belong together, such as the letters of one alphabet. `may_flip` says
    that mirroring cannot change a class. Items of another `kind` than images are read as `Images` says.
    """

    name: str
    labels: np.ndarray
    class_names: tuple[str, ...]
    names: Sequence[str]
    read: Callable[[int, int], np.ndarray]
    groups: np.ndarray | None = None
    families: np.ndarray | None = None
    may_flip: bool = False
    provenance: Provenance = Provenance()
    kind: str = IMAGES.name

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<Dataset {one_line(self.name, 100)!r}: {self.n_classes} classes, {len(self)} images>"

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def by_class(self) -> tuple[np.ndarray, ...]:
        """Indices of the images of each class, ascending."""
        order = np.argsort(self.labels, kind="stable")
        ends = np.cumsum(np.bincount(self.labels, minlength=self.n_classes))
        return tuple(np.split(order, ends[:-1]))

    def images(self, chosen: Sequence[Sequence[int]]) -> Images:
        """The images at the indices `chosen[c]`, labelled c, for every c in turn."""
        indices = [int(i) for of_class in chosen for i in of_class]
        return Images(
            labels=np.repeat(np.arange(len(chosen), dtype=np.int32), [len(c) for c in chosen]),
            names=tuple(self.names[i] for i in indices),
            read=partial(read_chosen, self.read, indices),
            kind=self.kind,
        )

    def take(self, rows: np.ndarray) -> "Dataset":
        """The images at the indices `rows` alone, in that order. All classes stay."""
        return replace(
            self,
            labels=self.labels[rows],
            names=Made(len(rows), lambda i: self.names[int(rows[i])]),
            read=partial(read_chosen, self.read, rows),
            groups=None if self.groups is None else self.groups[rows],
        )


class Made(Sequence):
    """A sequence of `n` values that are made when they are asked for: names of millions of images."""

    def __init__(self, n: int, make: Callable[[int], str]):
        self.n, self.make = n, make

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> str:
        if not 0 <= i < self.n:
            raise IndexError(i)
        return self.make(int(i))


def subset(dataset: Dataset, classes: Sequence[int], name: str | None = None) -> Dataset:
    """Only these classes of a dataset, numbered anew in the order given."""
    rows = np.concatenate([dataset.by_class[c] for c in classes])
    sizes = [len(dataset.by_class[c]) for c in classes]
    return replace(
        dataset.take(rows),
        name=name or dataset.name,
        labels=np.repeat(np.arange(len(classes), dtype=np.int32), sizes),
        class_names=tuple(dataset.class_names[c] for c in classes),
        families=None if dataset.families is None else dataset.families[list(classes)],
    )
