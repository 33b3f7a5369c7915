"""The units of a program bound to its arena: each has its arrays and the segments that it runs."""

from collections.abc import Iterable

import numpy as np

from tinytrain.episode.augment import Augmentation
from tinytrain.episode.kind import Change
from tinytrain.program.stages import Of, Unit
from tinytrain.runtime.bind import Binder
from tinytrain.runtime.thread_pool import Hand


class ShownRows:
    """The item (height, width, channels) that is shown to a unit, and how its rows are changed."""

    def __init__(self, kernels):
        self.kernels = kernels
        self.image: np.ndarray | None = None  # of whoever shows it
        self.change: Augmentation | None = None
        self.changed: np.ndarray | None = None
        self.total = np.zeros(1, np.int64)  # sum of its pixels

    def augment(self, change: Change | None) -> None:
        """From now on rows are changed as `change` says: those of an image as they are asked for."""
        by_rows = isinstance(change, Augmentation)
        self.change, self.changed = change if by_rows else None, self.image
        if by_rows:
            self.kernels.sum_pixels(self.total, self.image)
        elif change is not None:
            self.changed = np.empty_like(self.image)
            change.apply(self.changed, self.image, self.kernels)

    def show_rows(self, y: np.ndarray, first: int) -> None:
        """y (rows, width, channels) = rows of the image from `first` on, changed."""
        if self.change is None:
            np.copyto(y, self.changed[first : first + len(y)])
        else:
            self.kernels.augment_rows(y, self.image, self.total, first, *self.change.arguments())


class BoundUnit:
    """Arrays of a `Unit`, and segments of some `kinds` for at most `most` images bound to its workspace.

    With a `hand`, others work at the same time: what they share changes when its turn has come.
    """

    def __init__(self, bind: Binder, unit: Unit, kinds: Iterable[str], most: int, hand: Hand | None = None):
        self.hand = hand
        self.arrays = {
            of: bind.whole(buffer) for of in Of if (buffer := getattr(unit, of.value, None)) is not None
        }
        self.augmented = self.arrays.get(Of.AUGMENTED)
        # Units in the same bytes work one after another, so that they can share it with their segments. No
        # bytes at all are no place: units without any may work at the same time.
        place = bind.program.offset(unit.workspace.name) if unit.workspace.nbytes else unit
        self._rows = bind.bound.setdefault(("rows", place), ShownRows(bind.kernels))
        self.features, self.gradient = self.arrays.get(Of.FEATURES), self.arrays.get(Of.GRADIENT)
        program = bind.program
        own = {b: unit.own(b) or program.buffers.get(name) for name, b in program.externals.items()}
        views = {external: bind.whole(buffer) for external, buffer in own.items() if buffer is not None}
        shared, rows = {b for b in own if unit.own(b) is None}, {"show_rows": self._rows.show_rows}
        self.segments = {
            (kind, n): bind.segment(segment, unit.workspace, views, rows, hand, shared)
            for (kind, n), segment in program.segments.items()
            if kind in kinds and n <= most
        }
        # What the frozen part leaves: without a prefix, the image itself.
        self.frozen = (
            self.segments["prefix", 1][1][0][0] if ("prefix", 1) in self.segments else self.augmented
        )

    def show(self, image: np.ndarray | None) -> None:
        """The item (height, width, channels) that `augment` changes from now on, or none."""
        self._rows.image = self._rows.changed = image

    def augment(self, change: Change | None) -> None:
        """`augmented` becomes a copy of the item that is shown, changed as `change` says.

        Without `augmented`, rows are changed so from now on.
        """
        image = self._rows.image
        if self.augmented is None:
            self._rows.augment(change)
        elif change is None:
            np.copyto(self.augmented, image)
        else:
            change.apply(self.augmented, image, self._rows.kernels)
