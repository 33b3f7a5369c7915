"""An episode: labelled support pictures to adapt to, query pictures to judge by.

Pictures are handed over one at a time and are never kept here: the source behind
`read` decides whether they lie in memory, in a pack or in files on disk.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinytrain.errors import InputError


@dataclass(frozen=True, eq=False)
class Pictures:
    """A labelled list of pictures.

    `labels` is (n,) int32, counted from 0; `names` identifies each picture for people;
    `read(i, size)` returns picture i as uint8 (size, size, 3) RGB, resized by the rule of
    `tinytrain.network.Preprocessing`.
    """

    labels: np.ndarray
    names: tuple[str, ...]
    read: Callable[[int, int], np.ndarray]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Episode:
    """Support and query pictures of the same classes. `query` may be empty; classes may be unbalanced.

    `may_flip` says that mirroring a picture cannot change its class. `source` names where
    the pictures came from. Raises InputError for fewer than two classes or a class without
    support pictures.
    """

    support: Pictures
    query: Pictures
    class_names: tuple[str, ...]
    may_flip: bool = False
    source: str = ""

    def __post_init__(self):
        if self.n_way < 2:
            raise InputError("one-class", f"{self.n_way} class given; at least 2 are needed to tell apart")
        counts = self.shots
        for name, count in zip(self.class_names, counts, strict=True):
            if count == 0:
                raise InputError("empty-class", f"class {name!r} has no support picture; add at least one")

    @property
    def n_way(self) -> int:
        return len(self.class_names)

    @property
    def shots(self) -> np.ndarray:
        """Support pictures per class, (n_way,)."""
        return np.bincount(self.support.labels, minlength=self.n_way)
