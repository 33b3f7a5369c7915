"""Near-duplicates, such as frames of a burst, and how they inflate the estimated accuracy.

If one of them is left out, the others still show it, so it says little about new images. They are found in
sketches: one bit for each value of an embedding, whether it is above the mean of the class means. The
fraction of bits that differ grows with the angle between two embeddings.

A group is a chain of images, each ALIKE another one of it, and none FAR from the first: a long film is
several groups. An image that is alike those of two groups joins these unless their first ones are APART.
If MANY images of a class are copies, heads are fitted and calibrated to one image of each of its groups, so
that a burst says as much as its one photograph. Fewer copies change little and stay: some images that were
taken one by one look alike, too.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from tinytrain.heads.head import Batch

# Fractions of the bits: frames of a burst differ in 0.09 of them (median), other images of a class in 0.4.
COPY, ALIKE, APART, FAR = 0.16, 0.18, 0.25, 0.35
MANY = 0.25  # of the images of a class
NEAR = 0.6  # of the median distance to the others of its class: a closer image repeats it
LEAST_BITS = 64  # fewer are too coarse to tell a repeated image
MOST_BYTES = 24_000  # of sketches: of more images, the first ones of groups stand for all
INTEGER_BYTES = 28  # of a Python integer beside its bits


class Repeats(NamedTuple):
    """Which images are `copies` that heads do not see, (n,) bool, and the fraction of images that are
    recognised without themselves only because others repeat them: by copies (`feigned`), and in all.
    """

    copies: np.ndarray
    feigned: float = 0.0
    repeated: float = 0.0


class Sketches:
    """Sketches of embeddings of `size` values, by class."""

    def __init__(self, size: int):
        self._size, self._room = size, MOST_BYTES // (INTEGER_BYTES + size // 7)
        self._classes: dict[int, _Groups] = defaultdict(partial(_Groups, size))

    def add(self, embeddings: np.ndarray, labels: np.ndarray, centre: np.ndarray) -> None:
        """Add the sketches of embeddings (n, size), relative to `centre` (size,), with `labels` (n,).

        For `repeated`, mix the classes: there may not be room for all images.
        """
        for e, label in zip(embeddings, labels.tolist(), strict=True):
            groups = self._classes[label]
            if not self._room:
                self._room += max(self._classes.values(), key=_Groups.spare).shorten()
            kept = self._room > 0
            groups.add(int.from_bytes(np.packbits(e > centre).tobytes()), kept)
            self._room -= kept

    def copies(self, labels: np.ndarray) -> np.ndarray:
        """(n,) bool: which of the images, added in this order with `labels` (n,), heads do not see."""
        copies = np.zeros(len(labels), bool)
        for label, groups in self._classes.items():
            copies[labels == label] = groups.copies()
        return copies

    def repeated(self) -> float:
        """Fraction of the images that are recognised without themselves only because others repeat them.

        An image is recognised if it is less far from the others of its class than from any other class, in
        the mean. Copies that heads do not see are no images here. With fewer than LEAST_BITS it is 0.
        """
        if self._size < LEAST_BITS:
            return 0.0
        seen, helped, judged = {k: groups.seen() for k, groups in self._classes.items()}, 0, 0
        for label, images in seen.items():
            for bits in images:
                distances = {k: [(bits ^ b).bit_count() for b in others] for k, others in seen.items()}
                own = sorted(distances.pop(label))[1:]  # the first one is its own
                if own and distances:
                    rest = [far for far in own if far >= NEAR * own[len(own) // 2]]
                    other = min(map(_mean, distances.values()))
                    judged += 1
                    helped += int(_mean(own) < other) - int(_mean(rest) < other)
        return max(0.0, helped / judged) if judged else 0.0


class _Groups:
    """The groups of one class in sketches of `size` bits."""

    def __init__(self, size: int):
        self._size = size
        # Of some images, among them the first one of every group, with the numbers of the images. Python's
        # integers, because numpy would load code and make copies of more bytes than the sketches.
        self._sketches: list[int] = []
        self._images = array("i")
        self._group_of = array("i")  # of each image: the number of the first one
        self._copies = 0

    def add(self, bits: int, kept: bool) -> None:
        """One more image, whose sketch is `kept` or not."""
        first, closest = {}, {}
        for other, image in zip(self._sketches, self._images, strict=True):
            distance, group = (bits ^ other).bit_count(), self._group_of[image]
            if first.setdefault(group, distance) < FAR * self._size:
                closest[group] = min(distance, closest.get(group, distance))
        self._copies += any(distance < COPY * self._size for distance in closest.values())
        number = len(self._group_of)
        own, *others = [g for g, distance in closest.items() if distance < ALIKE * self._size] or [number]
        for group in others:
            if not self._apart(own, group):
                self._group_of = array("i", (own if g == group else g for g in self._group_of))
        self._group_of.append(own)
        if kept:
            self._sketches.append(bits)
            self._images.append(number)

    def _apart(self, one: int, other: int) -> bool:
        first, second = (self._sketches[self._images.index(group)] for group in (one, other))
        return (first ^ second).bit_count() >= APART * self._size

    def _is_first(self, image: int) -> bool:
        return self._group_of[image] == image

    def spare(self) -> int:
        """Sketches that are not of the first image of a group."""
        return len(self._images) - sum(map(self._is_first, self._images))

    def shorten(self) -> int:
        """Drop the last such sketch; returns how many were dropped, 1 or 0."""
        spare = [place for place, image in enumerate(self._images) if not self._is_first(image)]
        for place in spare[-1:]:
            del self._sketches[place], self._images[place]
        return len(spare[-1:])

    def copies(self) -> np.ndarray:
        """(n,) bool: all images but the middle one of each group, if there are many copies.

        Where no group is APART from the first one, all are one: the class may be a single burst.
        """
        groups = np.array(self._group_of)
        copies = np.zeros(len(groups), bool)
        if not self._has_many():
            return copies
        if not any(self._apart(self._images[0], image) for image in filter(self._is_first, self._images)):
            groups[:] = 0
        copies[:] = True
        for number in np.unique(groups):
            members = np.flatnonzero(groups == number)
            copies[members[len(members) // 2]] = False
        return copies

    def seen(self) -> list[int]:
        """Sketches of images that heads see, or of others of their groups."""
        if not self._has_many():
            return self._sketches
        every = zip(self._images, self._sketches, strict=True)
        return [sketch for image, sketch in every if self._is_first(image)]

    def _has_many(self) -> bool:
        return self._size >= LEAST_BITS and self._copies >= MANY * len(self._group_of)


def stretches(chosen: np.ndarray, embeddings: np.ndarray, labels: np.ndarray) -> Iterator[Batch]:
    """Embeddings (n, d) and labels (n,) of the images that are `chosen` (n,), in parts; none is moved."""
    ends = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    for first, end in ends.reshape(-1, 2):
        yield embeddings[first:end], labels[first:end]


def feigned(before: np.ndarray, after: np.ndarray) -> float:
    """Fraction of the images that were recognised before copies were left out and are not after that.

    Both are `leave_one_out.recognised`; images that cannot be judged after that are not counted.
    """
    fewer = (before - after)[~np.isnan(before - after)]
    return max(0.0, float(fewer.mean())) if len(fewer) else 0.0


def copies_among(embeddings: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) bool: which of the images with these embeddings (n, d) and `labels` (n,) heads do not see."""
    centre = np.mean([embeddings[labels == k].mean(axis=0) for k in np.unique(labels)], axis=0)
    sketches = Sketches(embeddings.shape[1])
    sketches.add(embeddings, labels, centre)
    return sketches.copies(labels)


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


def herded(embeddings: np.ndarray, labels: np.ndarray, most) -> list[int]:
    """Indices, class by class, of embeddings whose mean is near that of their class.

    `embeddings` (n, d) have length 1, `labels` (n,). `most` is how many of each class are taken at most, a
    number or (way,). The first ones are the most telling: each is the best addition to those before it
    (Rebuffi et al., "iCaRL", CVPR 2017, equation 4).
    """
    found = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        room = int(np.broadcast_to(most, int(labels.max()) + 1)[label])
        found += sorted(members.tolist()) if len(members) <= room else _chosen(embeddings, members, room)
    return found


def _chosen(embeddings: np.ndarray, members: np.ndarray, count: int) -> list[int]:
    of_class = embeddings[members].astype(float)
    mean, total, left = of_class.mean(axis=0), np.zeros(of_class.shape[1]), list(range(len(members)))
    chosen = []
    for k in range(1, count + 1):
        away = [np.square(mean - (total + of_class[i]) / k).sum() for i in left]
        chosen.append(left.pop(int(np.argmin(away))))
        total += of_class[chosen[-1]]
    return sorted(int(members[i]) for i in chosen)
