"""Streams of embeddings of a data set: images as they are, and as a camera in trouble would see them."""

from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.corruptions import CORRUPTIONS, blurred, darkened, noisy, rotated
from tinytrain.datasets.dataset import Dataset
from tinytrain.episode.episode import Images
from tinytrain.meta.studies.heads import indices
from tinytrain.pipeline.networks import embed
from tinytrain.runtime.device import Device

CLEAN = "clean"
CLASSES, IMAGES = 12, 40  # of a data set: enough for streams, and embedded in seconds
CHANGES = {
    **CORRUPTIONS,
    "mildly darkened": partial(darkened, factor=0.35),
    "mildly blurred": partial(blurred, radius=1.0),
    "mildly rotated": partial(rotated, degrees=20),
    "mildly noisy": partial(noisy, deviation=20),
}


@dataclass(frozen=True, eq=False)
class Pool:
    """Some images of a data set, read as their numbers, and the embeddings (n, d) of these by condition."""

    images: Dataset
    embeddings: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Task:
    """Support embeddings (n, d) with labels, and the numbers of the query images of each class in `pool`."""

    pool: Pool
    support: np.ndarray
    labels: np.ndarray
    queries: tuple[np.ndarray, ...]

    @property
    def way(self) -> int:
        return len(self.queries)

    @property
    def centres(self) -> np.ndarray:
        """(way, d) means of the support embeddings of each class."""
        return np.stack([self.support[self.labels == k].mean(axis=0) for k in range(self.way)])

    def drawn(self, classes: np.ndarray, rng) -> np.ndarray:
        """The number of a query image of each of `classes`, with replacement."""
        return np.array([rng.choice(self.queries[k]) for k in classes])


@cache
def pool(network, dataset: Dataset) -> Pool:
    """At most CLASSES classes with IMAGES images each, the same in every run."""
    rng = rng_for(0, "images of streams", dataset.name)
    most = rng.permutation([k for k, rows in enumerate(dataset.by_class) if len(rows)])[:CLASSES]
    rows = np.concatenate([rng.permutation(dataset.by_class[k])[:IMAGES] for k in most])
    groups = None if dataset.groups is None else dataset.groups[rows]
    some = replace(
        dataset,
        labels=dataset.labels[rows],
        names=tuple(map(str, rows)),
        groups=groups,
        read=lambda i, size: i,
    )

    def embedded(change) -> np.ndarray:
        def read(i: int, size) -> np.ndarray:
            image = dataset.read(int(rows[i]), size)
            return change(image, rng_for(0, "a change of", dataset.name, int(rows[i]))) if change else image

        images = Images(np.zeros(len(rows), np.int32), some.names, read)
        return embed(network, images, Device(threads=1))

    return Pool(some, {name: embedded(change) for name, change in {CLEAN: None, **CHANGES}.items()})


def task(found: Pool, args, episode: int) -> Task:
    """An episode of the images of a pool, with the `way`, `shots`, `queries` and `seed` of `args`."""
    (support, labels), (query, truth) = indices(found.images, args, args.shots, episode)
    queries = tuple(query[truth == k] for k in range(args.way))
    return Task(found, found.embeddings[CLEAN][support], labels, queries)
