"""An episode: labelled support images to adapt to, and query images for evaluation.

Images are read one at a time and are kept here only after `held`. The source behind `read` keeps them in
memory, in a pack or in files.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.class_names import MAX_CLASSES, MAX_NAMES, is_text, wrong_class_names
from tinytrain.base.errors import InputError


@dataclass(frozen=True, eq=False)
class Images:
    """A labelled list of images.

    `labels` is (n,) int32, from 0. `names` identifies each image in messages. `read(i, size)` returns image i
    as uint8 (size, size, 3) RGB, resized by the rule of `tinytrain.network.network.Preprocessing`.
    """

    labels: np.ndarray
    names: tuple[str, ...]
    read: Callable[[int, int], np.ndarray]

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, i: int, size: int) -> np.ndarray:
        """Image i from `read`. Raises InputError ``bad-picture`` for another shape or dtype."""
        image = np.asarray(self.read(i, size))
        if image.dtype != np.uint8 or image.shape != (size, size, 3):
            shape = " x ".join(map(str, image.shape))
            raise InputError(
                "bad-picture",
                f"image {self.names[i]} is {shape} {image.dtype}; it must be {size} x {size} x 3 uint8",
            )
        return image

    def held(self, size: int) -> "Images":
        """The same images, decoded once and kept in memory (3 * size**2 bytes each), for this size only."""
        decoded = [self.image(i, size) for i in range(len(self))]
        return replace(self, read=lambda i, _size: decoded[i])

    def take(self, indices: Sequence[int]) -> "Images":
        """The images at `indices`, in that order, still read one at a time."""
        chosen = [int(i) for i in indices]
        return Images(
            labels=self.labels[chosen],
            names=tuple(self.names[i] for i in chosen),
            read=lambda i, size: self.read(chosen[i], size),
        )


@dataclass(frozen=True, eq=False)
class Episode:
    """Support and query images of the same classes. `query` may be empty; classes may be unbalanced.

    `may_flip`: mirroring an image does not change its class. `source` names the origin of the images;
    `generated`: this project drew them. Raises InputError for fewer than two classes or more than
    `MAX_CLASSES`, class names that `wrong_class_names` refuses, image names that are not text, a class
    without support images, or a label without a class.
    """

    support: Images
    query: Images
    class_names: tuple[str, ...]
    may_flip: bool = False
    source: str = ""
    generated: bool = False

    def __post_init__(self):
        if self.n_way < 2:
            given = f"{self.n_way} class" + ("es" if self.n_way == 0 else "")
            raise InputError("one-class", f"{given} given; at least 2 are needed to tell apart")
        if self.n_way > MAX_CLASSES:
            raise InputError("too-many-classes", f"{self.n_way} classes given; give at most {MAX_CLASSES}")
        if wrong := wrong_class_names(self.class_names):
            raise InputError("class-names", f"{wrong}; give every class its own name")
        # A delta stores the names twice in its header of at most 1 MB.
        if len(json.dumps(self.class_names)) > MAX_NAMES:
            raise InputError(
                "class-names", f"{self.n_way} class names take more than {MAX_NAMES:,} bytes; shorten them"
            )
        for name in (self.source, *self.support.names, *self.query.names):
            if not is_text(name):
                raise InputError("picture-names", f"the name {name!r:.60} is not text; give another")
        for images in (self.support, self.query):
            if images.labels.dtype.kind not in "iu":
                raise InputError("bad-label", f"labels are {images.labels.dtype}; they must be whole numbers")
            if len(images) and not 0 <= images.labels.min() <= images.labels.max() < self.n_way:
                worst = images.labels[np.abs(images.labels - (self.n_way - 1) / 2).argmax()]
                raise InputError(
                    "bad-label", f"label {worst} given; {self.n_way} classes end at {self.n_way - 1}"
                )
        for name, count in zip(self.class_names, self.shots, strict=True):
            if count == 0:
                raise InputError("empty-class", f"class {name!r} has no support image; add at least one")

    @property
    def n_way(self) -> int:
        return len(self.class_names)

    @property
    def shots(self) -> np.ndarray:
        """Support images per class, (n_way,)."""
        return np.bincount(self.support.labels, minlength=self.n_way)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over class names and the names and labels of all images, in order.

        Two runs with the same digest used the same list of images.
        """
        parts = [self.class_names]
        for images in (self.support, self.query):
            parts += [images.names, images.labels.tolist()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
