"""What one step trains on, made from its number alone, and a thread that works ahead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.episode.decode import fit
from tinytrain.episode.kinds import kind_of
from tinytrain.meta.training.augment import Looks, change, view
from tinytrain.meta.training.hearing import Hearing
from tinytrain.meta.training.recipe import EpisodeSettings
from tinytrain.meta.training.sources import Source, pick
from tinytrain.network.input_spec import InputSpec

AHEAD = 2


@dataclass(frozen=True)
class Batch:
    """Images (n, size, size, 3) uint8 and labels (n,) int64; the first `n_support` are support images.

    `number` is that of the step.
    """

    images: np.ndarray
    labels: np.ndarray
    n_support: int = 0
    source: str = ""
    number: int = 0


def episode_batch(
    sources: Sequence[Source], settings: EpisodeSettings, looks: Looks, size: int, seed: int, number: int
) -> Batch:
    """Training episode `number`: every image in a random view, all in one change of domain."""
    rng = rng_for(seed, "episode", "meta-train", number)
    source = pick(rng, sources)
    episode = source.episode(rng, settings, seed, number)
    changed = change(rng, looks)
    views = [
        view(side.read(i, size), rng, size, looks, episode.may_flip)
        for side in (episode.support, episode.query)
        for i in range(len(side))
    ]
    images = np.stack(views)
    labels = np.concatenate([episode.support.labels, episode.query.labels]).astype(np.int64)
    return Batch(
        changed(images) if changed else images, labels, len(episode.support), source.settings.data, number
    )


def first_classes(sources: Sequence[Source]) -> list[int]:
    """Number of the first class of each source among the classes of all."""
    counts = [s.train.n_classes for s in sources]
    return [sum(counts[:k]) for k in range(len(counts))]


def mixed_batch(
    sources: Sequence[Source], first_class: Sequence[int], looks: Looks | Hearing, spec: InputSpec,
    count: int, seed: int, number: int,
) -> Batch:  # fmt: skip
    """Batch `number`: items of all sources by weight, classes drawn uniformly inside a source.

    Every one goes through its own change of domain. `first_class[k]` numbers the first class of source k
    among the classes of all sources.
    """
    rng, asked = rng_for(seed, "batch", number), kind_of(spec.kind).asked(spec)

    def drawn() -> tuple[Source, int, np.ndarray]:
        source = pick(rng, sources)
        c = int(rng.integers(source.train.n_classes))
        return source, c, source.train.read(int(rng.choice(source.train.by_class[c])), asked)

    images, labels = np.empty((count, *spec.shape), np.uint8), np.empty(count, np.int64)
    for k in range(count):
        source, c, image = drawn()
        images[k] = looks.seen(image, rng, spec, source.train.may_flip, lambda: drawn()[-1])
        labels[k] = first_class[sources.index(source)] + c
    return Batch(images, labels, number=number)


def sized(images: np.ndarray, side: int) -> np.ndarray:
    """Images (n, h, h, 3) as (n, side, side, 3), which a teacher of another input takes."""
    return images if images.shape[1] == side else np.stack([fit(image, side) for image in images])


class Prefetch:
    """Batches `start` to `stop` (excluded) of `make(number)`, made in a thread while the engine works.

    Between the two lie only queues written in C, which an interrupt cannot leave locked.
    """

    def __init__(self, make: Callable[[int], Batch], start: int, stop: int):
        self.make, self.closed = make, False
        self.ordered, self.made = SimpleQueue(), SimpleQueue()
        self.numbers = iter(range(start, stop))
        self.thread = Thread(target=self._serve, name="batches", daemon=True)
        self.thread.start()
        for _ in range(1 + AHEAD):
            self._order()

    def _order(self) -> None:
        self.ordered.put(next(self.numbers, None))

    def get(self) -> Batch:
        """The next batch, of which there are `stop` - `start`; raises what making it raised."""
        batch = self.made.get()
        self._order()
        if isinstance(batch, BaseException):
            raise batch
        return batch

    def close(self) -> None:
        """Let the thread end, after the batch that it is at."""
        self.closed = True
        self.ordered.put(None)
        self.thread.join()

    def _serve(self) -> None:
        while (number := self.ordered.get()) is not None and not self.closed:
            try:
                self.made.put(self.make(number))
            except BaseException as error:  # it is the caller's to see
                self.made.put(error)
