"""An episode: labelled support images to adapt to, and query images for evaluation.

Images are read one at a time and are kept here only after `held`. The source behind `read` keeps them in
memory, in a pack or in files. Inputs of another kind than images are called images here as well.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from tinytrain.base.class_names import MAX_CLASSES, MAX_NAMES, background_in, is_text, wrong_class_names
from tinytrain.base.errors import InputError, one_line
from tinytrain.base.random_streams import rng_for
from tinytrain.episode import Input, Size, spec_of
from tinytrain.episode.input_facts import Duplicate, Skipped
from tinytrain.episode.kinds import kind_of
from tinytrain.network.input_spec import IMAGE, InputSpec
from tinytrain.network.replay import Replay


@dataclass(frozen=True, eq=False)
class Images:
    """A labelled list of images, or of items of another `kind` of `tinytrain.episode.kinds`.

    `labels` is (n,) int32, counted from 0; `names` identifies each image for people;
    `read(i, size)` returns image i as uint8 (size, size, 3) RGB, resized by the rule of
    `tinytrain.network.input_spec.InputSpec`. A `size` (height, width) asks for an image that is not square,
    and what has one channel only may come as (..., 1). Another kind is asked for with an `InputSpec`.
    """

    labels: np.ndarray
    names: tuple[str, ...]
    read: Callable[[int, Size | InputSpec], np.ndarray]
    kind: str = IMAGE

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<Images: {len(self)}>"

    def image(self, i: int, given: Input) -> np.ndarray:
        """Image i as `given` describes it: an array of that shape (height, width, channels) and dtype.

        It is what `read` returns, made grey if one channel is wanted of three. Raises InputError unless that
        has the right shape and dtype, and for another kind.
        """
        spec = spec_of(given)
        self.check_kind(spec)
        kind = kind_of(spec.kind)
        return kind.checked(self.read(i, kind.asked(spec)), spec, self.names[i])

    def check_kind(self, given: Input) -> None:
        """Raise InputError ``file-kind`` unless these are of the kind that `given` describes."""
        if len(self) and self.kind != (wanted := spec_of(given).kind):
            are, needed = kind_of(self.kind).plural, kind_of(wanted).plural
            raise InputError(
                "file-kind",
                f"{one_line(self.names[0], 100)} and the others are {are}, and {needed} are needed; give"
                f" {needed}, or name a network for {are} with --backbone",
            )

    def held(self, given: Input) -> "Images":
        """The same images, decoded once and kept in memory; for what is `given` only."""
        return replace(self, read=partial(read_decoded, [self.image(i, given) for i in range(len(self))]))

    def take(self, indices: Sequence[int]) -> "Images":
        """The images at `indices`, in that order, still read one at a time."""
        chosen = [int(i) for i in indices]
        return replace(
            self,
            labels=self.labels[chosen],
            names=tuple(self.names[i] for i in chosen),
            read=partial(read_chosen, self.read, chosen),
        )


# How `Images` are read, as functions that a report can be pickled with.


def read_decoded(images: Sequence[np.ndarray], i: int, _asked: Size | InputSpec) -> np.ndarray:
    """Image i of those that are in memory."""
    return images[i]


def read_chosen(read: Callable, indices: Sequence[int], i: int, asked: Size | InputSpec):
    """Image i of those of `read` at `indices`."""
    return read(int(indices[i]), asked)


@dataclass(frozen=True, eq=False)
class Episode:
    """Support and query images of the same classes. `query` may be empty; classes may be unbalanced.

    `may_flip`: mirroring an image does not change its class. `source` names the origin of the images;
    `generated`: this project drew them. `skipped` are files that were left out, `duplicates` files with the
    same image. The last support images are those of `remembered`: they have features, and nothing to read.
    `replay`: of how many images of each class an adaptation keeps the features. Raises InputError for fewer
    than two classes or more than `MAX_CLASSES`, class names that `wrong_class_names` refuses, image names
    that are not text, a class without support images, or a label without a class.
    """

    support: Images
    query: Images
    class_names: tuple[str, ...]
    may_flip: bool = False
    source: str = ""
    generated: bool = False
    skipped: tuple[Skipped, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    remembered: Replay | None = None
    replay: int = 0

    least_classes: ClassVar[int] = 2
    decides: ClassVar[bool] = False  # whether queries are evidence of what is kept, and no mere measurement

    def __post_init__(self):
        if self.n_way < self.least_classes:
            raise too_few_classes(self.n_way)
        if self.n_way > MAX_CLASSES:
            raise InputError("class-names", f"{self.n_way} classes given; give at most {MAX_CLASSES}")
        if wrong := wrong_class_names(self.class_names):
            raise InputError("class-names", f"{wrong}; give every class its own name")
        # A delta stores the names twice in its header of at most 1 MB.
        if len(json.dumps(self.class_names)) > MAX_NAMES:
            raise InputError(
                "class-names", f"{self.n_way} class names take more than {MAX_NAMES:,} bytes; shorten them"
            )
        for name in (self.source, *self.support.names, *self.query.names):
            if not is_text(name):
                raise InputError("bad-value", f"the name {name!r:.60} is not text; give another")
        for images in (self.support, self.query):
            if images.labels.dtype.kind not in "iu":
                raise InputError("labels", f"labels are {images.labels.dtype}; they must be whole numbers")
            if len(images) and not 0 <= images.labels.min() <= images.labels.max() < self.n_way:
                worst = images.labels[np.abs(images.labels - (self.n_way - 1) / 2).argmax()]
                raise InputError(
                    "labels", f"label {worst} given; {self.n_way} classes end at {self.n_way - 1}"
                )
        for name, count in zip(self.class_names, self.shots, strict=True):
            if count == 0:
                raise InputError("too-few-images", f"class {name!r} has no support image; add at least one")

    @property
    def readable(self) -> Images:
        """The support images without those that are `remembered`."""
        return self.support.take(range(len(self.support) - len(self.remembered or ())))

    @property
    def continues(self) -> bool:
        """Whether training goes on from another adaptation, or another one shall go on from it."""
        return bool(self.replay or self.remembered)

    def __repr__(self) -> str:
        sides = f"{len(self.support)} support and {len(self.query)} query images"
        return f"<{type(self).__name__} {one_line(self.source, 100)!r}: {self.n_way} classes, {sides}>"

    @property
    def n_way(self) -> int:
        return len(self.class_names)

    @property
    def background(self) -> int | None:
        """The label of the class that is never an answer, if there is one."""
        return background_in(self.class_names)

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


class NormalEpisode(Episode):
    """An episode that may also be of one class alone: images that are normal, without any that are not.

    Only for a head that needs no second class (`HeadMethod.least_classes`).
    """

    least_classes = 1


class FolderEpisode(Episode):
    """An episode of a user's folder: what was held out of it is evidence, too, and decides what is kept.

    Of other episodes the queries are a measurement of what was decided without them.
    """

    decides = True


def folds(episode: Episode, seed: int, count: int) -> Iterator[Episode]:
    """For each of `count` folds of the support an episode of the others, with the fold as its queries.

    The images of each class are dealt to the folds by `seed`. Raises InputError where a class is all in one.
    """
    support, labels = episode.support, episode.support.labels
    order = rng_for(seed, "folds").permutation(len(labels))
    part = np.empty(len(labels), int)
    for label in range(episode.n_way):
        members = order[labels[order] == label]
        part[members] = (np.arange(len(members)) + label) % count
    for fold in range(count):
        seen, held = (support.take(np.flatnonzero(chosen)) for chosen in (part != fold, part == fold))
        if len(held):
            # Not of the folder's type, in which what is held out decides what is kept.
            yield Episode(seen, held, episode.class_names, episode.may_flip)


def too_few_classes(given: int) -> InputError:
    """The error for 0 classes or one, where two are needed."""
    return InputError(
        "too-few-classes",
        f"{given} class{'es' * (given == 0)} given; at least 2 are needed to tell apart; add another class, "
        "such as the background, or adapt with the head oselm-ae, which learns from one what is normal",
    )


def episode_type(least_classes: int) -> type[Episode]:
    """The type of episodes that a head with these `least_classes` may be fitted to."""
    return NormalEpisode if least_classes == 1 else FolderEpisode
