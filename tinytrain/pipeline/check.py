"""Are these images enough? An answer in seconds, from one forward pass per image; nothing is trained."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from tinytrain.base.class_names import background_in
from tinytrain.base.errors import InputError
from tinytrain.episode.episode import Episode, Images
from tinytrain.episode.episode import folds as divided
from tinytrain.guard.estimate import Estimate, LeftOut, cross_validated, folded, left_out
from tinytrain.guard.suspects import MISLABELLED, Suspect, find_suspects
from tinytrain.heads.leave_one_out import COLUMNS, LIKE, margins, measure, recognised
from tinytrain.heads.repeats import Repeats, Sketches, feigned
from tinytrain.network.network import Network
from tinytrain.pipeline.background import Background, measured
from tinytrain.pipeline.learning_curve import LEAST, Gain, expected_gain
from tinytrain.pipeline.networks import Compared, compared, embed, installed, preferred, tiers_in
from tinytrain.report import Report
from tinytrain.runtime.device import Device
from tinytrain.runtime.schedule import dealt

BATCH = 256  # embeddings that are compared with each other at once
FOLDS = 3  # of real adaptation


@dataclass(frozen=True)
class Confusion:
    """The two `classes` that are taken for each other most often, and the `images` of both that are."""

    classes: tuple[str, str]
    images: tuple[str, ...]


@dataclass(frozen=True)
class OfClass:
    """Class `name`: `errors` of its `images` are taken for another class, mostly `like`."""

    name: str
    images: int
    errors: int
    like: str | None


@dataclass(frozen=True, eq=False)
class Check:
    """What `check` found of images, by how many `counts` has of each class.

    `left_out` is what the estimate follows from. `confused` is None if no image looks like another class,
    `gain` (of five more images per class) if a class has too few. `duplicates` are JSON values. `by_class`
    begins with the class whose images are told from others least clearly: that to photograph next.
    `networks` are all combinations of those that are here, the one in use first; none if no other is here.
    `background` is what that brings, if there is enough of it, and of every class.
    """

    counts: dict[str, int]
    left_out: LeftOut
    estimate: Estimate
    confused: Confusion | None
    suspects: tuple[Suspect, ...]
    duplicates: tuple
    gain: Gain | None
    by_class: tuple[OfClass, ...]
    networks: tuple[Compared, ...]
    background: Background | None

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.counts)

    @property
    def shots(self) -> tuple[int, ...]:
        """Images of each of `classes`."""
        return tuple(self.counts.values())

    @property
    def next_class(self) -> OfClass:
        return self.by_class[0]

    @property
    def auto(self) -> str | None:
        """What ``--backbone auto`` would take of `networks`; None if there are none."""
        return preferred(self.networks, tiers_in(self.networks)) if self.networks else None

    def to_json(self) -> dict:
        """The result as JSON values."""
        return {
            "classes": list(self.classes),
            "shots": list(self.shots),
            "estimate": self.estimate.to_json(),
            "confused": self.confused and {k: list(v) for k, v in asdict(self.confused).items()},
            "suspects": [s.to_json() for s in self.suspects],
            "duplicates": list(self.duplicates),
            "repeated": self.left_out.repeated,
            "five_more": self.gain and self.gain.to_json(),
            "next_class": asdict(self.next_class),
            "by_class": [asdict(found) for found in self.by_class],
            "networks": [row.to_json() for row in self.networks],
            "background": self.background and asdict(self.background),
            "auto": self.auto,
        }


def check(
    network: Network, source, seed: int = 0, device: Device | None = None, others: bool = True
) -> Check:
    """Whether the labelled images of `source` are enough, by how `network` as it is tells them apart.

    `source` is an Episode, whose queries are not looked at, or a Dataset. With `others`, networks beside this
    one that are here are tried as well. The estimate is the one that
    `adapt` gives without held-out images. Raises InputError for images that cannot be read, a class without
    any, fewer than two classes, or a network with NaN or infinity.
    """
    episode = episode_of(source)
    if episode.n_way < 2:
        raise InputError(
            "too-few-classes", "1 class given; how classes are told apart can be checked for 2 or more"
        )
    network.check_finite()
    device, images, names = device or Device(), episode.support, episode.class_names
    embeddings = embed(network, images, device)
    rows, repeats = left_out_rows(embeddings, images.labels, episode.background)
    suspects = find_suspects(rows, images, names)
    mislabelled = [s.index for s in suspects if s.reason == MISLABELLED]
    found = left_out(margins(rows), mislabelled, images.labels, names, repeats)
    single, beside = np.flatnonzero(~repeats.copies), installed(network.input) if others else ()
    kept = np.setdiff1d(single, mislabelled)
    if np.bincount(images.labels[kept], minlength=len(names)).min() < LEAST:
        kept = single
    # The background is no answer, but all that the images of a single class can be told from.
    answers = kept[images.labels[kept] != episode.background] if len(names) > 2 else kept
    _, of_answers = np.unique(images.labels[answers], return_inverse=True)
    gain = expected_gain(embeddings[answers], of_answers, seed=seed)
    few = embeddings[single], images.labels[single], episode.background
    return Check(
        dict(zip(names, episode.shots.tolist(), strict=True)),
        found,
        cross_validated(found),
        _confusion(rows, images, names),
        suspects,
        tuple(d.to_json() for d in episode.duplicates),
        gain,
        _by_class(rows, images.labels, names),
        compared(network, beside, images.take(single), embeddings[single], seed, device),
        gain and measured(device.kernels(), *few, seed),
    )


def with_adaptations(
    found: Check, source, adapted: Callable[[Episode], Report], seed: int = 0, folds: int = FOLDS
) -> Check:
    """`found` with the estimate by `folds` real adaptations, each judged by images that it did not see.

    ``adapted(episode)`` makes one, for example ``partial(adapt, network, budget=...)``. The estimate stays as
    it is if it is unknown.
    """
    if found.estimate.accuracy is None:
        return found
    episode = episode_of(source)
    right = sum(
        int((adapted(fold).answers.after == fold.query.labels).sum())
        for fold in divided(episode, seed, folds)
    )
    return replace(found, estimate=folded(right, len(episode.support), folds, found.left_out))


def left_out_rows(
    embeddings: np.ndarray, labels: np.ndarray, background: int | None = None
) -> tuple[np.ndarray, Repeats]:
    """`leave_one_out.measure` of all images, (n, COLUMNS), and what those feign that repeat others.

    `embeddings` (n, d) have length 1. Copies are no part of the class means.
    """
    order, sketches, copies = dealt(labels), Sketches(embeddings.shape[1]), np.zeros(len(labels), bool)
    sketches.add(embeddings[order], labels[order], _means(embeddings, labels, copies).mean(axis=0))
    every = _rows(embeddings, labels, order, copies, background)
    copies[order] = sketches.copies(labels[order])
    rows = _rows(embeddings, labels, order, copies, background) if copies.any() else every
    fewer = feigned(recognised(every), recognised(rows))
    return rows, Repeats(copies, fewer, fewer + sketches.repeated())


def _rows(embeddings, labels: np.ndarray, order: np.ndarray, copies: np.ndarray, background) -> np.ndarray:
    """Rows of `leave_one_out.measure`, BATCH in `order` at a time, against means without `copies`."""
    rows = np.empty((len(labels), COLUMNS), np.float32)
    means = _means(embeddings, labels, copies)
    counts, centred = np.bincount(labels[~copies]).astype(np.float32), np.empty_like(means)
    for first in range(0, len(order), BATCH):
        chosen = order[first : first + BATCH]
        some = np.empty((len(chosen), COLUMNS), np.float32)
        measure(some, embeddings[chosen], labels[chosen], means, counts, centred, background)
        rows[chosen] = some
    return rows


def _means(embeddings: np.ndarray, labels: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Class means (way, d) of the images that are no `copies`."""
    return np.stack([embeddings[(labels == k) & ~copies].mean(axis=0) for k in range(labels.max() + 1)])


def episode_of(source) -> Episode:
    """`source`, or all images of it as support if it is a Dataset."""
    if isinstance(source, Episode):
        return source
    images = source.images(source.by_class)
    duplicates = source.provenance.duplicates
    return Episode(images, images.take([]), tuple(source.class_names), duplicates=duplicates)


def _confusion(rows: np.ndarray, images: Images, names: tuple[str, ...]) -> Confusion | None:
    wrong = np.flatnonzero(margins(rows) <= 0)
    pairs = {i: tuple(sorted((int(images.labels[i]), int(rows[i, LIKE])))) for i in wrong}
    if not pairs:
        return None
    (a, b), _ = Counter(pairs.values()).most_common(1)[0]
    return Confusion((names[a], names[b]), tuple(images.names[i] for i, p in pairs.items() if p == (a, b)))


def _by_class(rows: np.ndarray, labels: np.ndarray, names: tuple[str, ...]) -> tuple[OfClass, ...]:
    """The least clear class first; one of a single image comes before others."""
    found = margins(rows)
    clear = [found[labels == k].mean() for k in range(len(names))]
    order = np.argsort(np.nan_to_num(clear, nan=-np.inf), kind="stable")
    order = order[order != background_in(names)]  # all of them, if there is none
    return tuple(_of_class(names, k, rows[labels == k, LIKE], found[labels == k]) for k in order.tolist())


def _of_class(names: tuple[str, ...], k: int, alike: np.ndarray, found: np.ndarray) -> OfClass:
    """Class k, whose images have the margins `found` and look like the classes `alike`."""
    wrong = alike[found <= 0].astype(int).tolist()
    like = Counter(wrong).most_common(1)
    return OfClass(names[k], len(found), len(wrong), names[like[0][0]] if like else None)
