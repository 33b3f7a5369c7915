"""What the runs of a comparison are, as data: policies with their limits, and how episodes are drawn."""

from dataclasses import dataclass, replace
from pathlib import Path

from tinytrain.base.errors import UsageError
from tinytrain.base.schema import choice, count, of
from tinytrain.datasets import Dataset, sample_episode, sample_meta_dataset_episode
from tinytrain.episode.episode import Episode
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget

DEFAULT_MEMORY, DEFAULT_MACS = Budget().memory, Budget().macs
SEEDS = Path(__file__).with_name("seeds.txt")


@dataclass(frozen=True)
class Entry:
    """`policy` under a `label`; `rate_scale` multiplies its learning rates, the rest is its budget."""

    label: str
    policy: str
    rate_scale: float = 1.0
    memory: int = DEFAULT_MEMORY
    macs: float = DEFAULT_MACS

    @property
    def budget(self) -> Budget:
        return Budget(self.memory, self.macs)


def seeds(count: int) -> tuple[int, ...]:
    """The first `count` published seeds: episode k of every comparison is drawn and adapted with number k.

    Raises UsageError if the list is shorter.
    """
    known = SEEDS.read_text(encoding="ascii").split()
    if count > len(known):
        raise UsageError("usage", f"{count} episodes asked for; the list has {len(known)} seeds")
    return tuple(int(seed) for seed in known[:count])


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
