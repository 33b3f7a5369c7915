"""Source domains of a run: images decoded once, classes held out, episodes and batches drawn by number."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import CLIPS, DOMAINS, open_dataset, sample_episode, sample_meta_dataset_episode
from tinytrain.datasets.dataset import Dataset, subset
from tinytrain.datasets.generated import domain
from tinytrain.episode.episode import Episode
from tinytrain.meta.training.recipe import EpisodeSettings, SourceSettings
from tinytrain.network.input_spec import IMAGE, InputSpec

IMAGES = InputSpec()


class Store:
    """Reads images of a dataset at one size, each at most once; grey ones are kept as one plane.

    Items of another kind are read by the `InputSpec` given as `size`.
    """

    def __init__(self, dataset: Dataset, size: int | InputSpec):
        self.dataset, self.size = dataset, size
        self.held: dict[int, np.ndarray] = {}

    def read(self, i: int, _size: int | None = None) -> np.ndarray:
        """Image i as uint8 (size, size, 3), or (size, size) if it is grey."""
        if i not in self.held:
            image = self.dataset.read(i, self.size)
            grey = (image == image[..., :1]).all()
            self.held[i] = np.ascontiguousarray(image[..., 0]) if grey else image
        return self.held[i]


def open_source(settings: SourceSettings) -> Dataset:
    """The dataset that a recipe names, with the classes it asks for. Raises InputError."""
    name, span = settings.data, settings.classes
    if name in DOMAINS + CLIPS:
        more = {"per_class": settings.per_class, "seed": settings.data_seed}
        return domain(name)(range(*span) if span else None, **more)
    dataset = open_dataset(name)
    if span is None:
        return dataset
    if span[1] > dataset.n_classes:
        raise InputError(
            "too-few-classes",
            f"{name!r} has {dataset.n_classes} classes, the recipe asks for {span[0]}..{span[1] - 1}",
        )
    return subset(dataset, range(*span))


class Source:
    """One domain to train on and its held-out classes.

    Images of `train` and `held_out` come as they are kept, whatever size is asked for.
    """

    def __init__(self, settings: SourceSettings, seed: int, spec: InputSpec = IMAGES):
        self.settings, self.weight = settings, settings.weight
        self.whole = open_source(settings)
        self.store = Store(self.whole, settings.size if spec.kind == IMAGE else spec)
        count = self.whole.n_classes
        shuffled = rng_for(seed, "held-out", settings.data).permutation(count)
        held = round(settings.held_out * count)
        kept = replace(self.whole, read=self.store.read)
        self.train = subset(kept, sorted(shuffled[held:]))
        # Held-out images are judged by the rule of the device, so they are decoded by it.
        name = f"{self.whole.name} held-out"
        self.held_out = subset(self.whole, sorted(shuffled[:held]), name) if held else None
        self.families = _families(self.train) if settings.families else []

    def episode(self, rng: np.random.Generator, settings: EpisodeSettings, seed: int, number: int) -> Episode:
        """Training episode `number` of the stream `seed`."""
        if settings.sampler == "meta-dataset":
            return sample_meta_dataset_episode(self.train, seed, number, settings.max_support)
        fitting = [f for f in self.families if f.n_classes >= settings.way]
        alike = rng.random() < self.settings.families and bool(fitting)
        dataset = fitting[rng.integers(len(fitting))] if alike else self.train
        return sample_episode(dataset, settings.way, settings.shots, settings.queries, seed, number)

    def check(self, settings: EpisodeSettings) -> None:
        """Raise InputError if no episode can be drawn, before anything is trained."""
        self.episode(rng_for(0), settings, 0, 0)


def _families(dataset: Dataset) -> list[Dataset]:
    if dataset.families is None:
        return []
    return [
        subset(dataset, np.flatnonzero(dataset.families == f), f"{dataset.name} family {f}")
        for f in np.unique(dataset.families)
    ]


def open_sources(settings: Sequence[SourceSettings], seed: int, spec: InputSpec = IMAGES) -> list[Source]:
    """Those of a recipe, for a network that takes `spec`."""
    return [Source(s, seed, spec) for s in settings]


def pick(rng: np.random.Generator, sources: Sequence[Source]) -> Source:
    """One of `sources`, by weight."""
    weights = np.array([s.weight for s in sources])
    return sources[rng.choice(len(sources), p=weights / weights.sum())]
