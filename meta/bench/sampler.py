"""How the episodes of a comparison are drawn, as data."""

from dataclasses import dataclass, replace

from tinytrain.base.schema import choice, count, of
from tinytrain.datasets import Dataset, sample_episode, sample_meta_dataset_episode
from tinytrain.episode.episode import Episode
from tinytrain.network.network import Network


@dataclass(frozen=True)
class Sampler:
    """`kind` fixed: way x (shots + queries); meta-dataset: ways and shots drawn, at most `max_support`."""

    kind: str = of(choice("fixed", "meta-dataset"), "fixed")
    way: int = of(count(2, 100), 5)
    shots: int = of(count(1, 100), 5)
    queries: int = of(count(1, 100), 10)
    max_support: int = of(count(5, 500), 100)

    @property
    def name(self) -> str:
        """
        >>> Sampler().name, Sampler("meta-dataset").name
        ('5-way 5-shot, 10 queries', 'Meta-Dataset, support up to 100')
        """
        if self.kind == "meta-dataset":
            return f"Meta-Dataset, support up to {self.max_support}"
        return f"{self.way}-way {self.shots}-shot, {self.queries} queries"

    def draw(self, dataset: Dataset, seed: int) -> Episode:
        """The episode of that seed. Raises InputError if the dataset is too small."""
        if self.kind == "meta-dataset":
            return sample_meta_dataset_episode(dataset, seed, 0, self.max_support)
        return sample_episode(dataset, self.way, self.shots, self.queries, seed)


def decoded(episode: Episode, network: Network) -> Episode:
    """`episode` whose images are decoded once, for `network`."""
    shape = network.input.shape
    return replace(episode, support=episode.support.held(shape), query=episode.query.held(shape))
