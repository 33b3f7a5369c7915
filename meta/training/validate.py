"""Unadapted accuracy on fixed episodes: of held-out classes of the sources, and of held-out domains.

Every image is decoded and embedded once; the episodes then only pick rows, so many of them are cheap.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import sample_episode
from tinytrain.datasets.dataset import Dataset, subset
from tinytrain.meta.bench.statistics import Interval, mean_interval
from tinytrain.meta.training.losses import unit
from tinytrain.meta.training.recipe import ValidationSettings
from tinytrain.meta.training.sources import Source, open_source

Embed = Callable[[np.ndarray], np.ndarray]
SEED = 20_000  # of the fixed episodes: the same in every run, so that runs can be compared


class FixedEpisodes:
    """Episodes of one dataset: `images` (n, size, size, 3), and rows of them with labels per episode."""

    def __init__(self, dataset: Dataset, settings: ValidationSettings, size: int):
        self.name = dataset.name
        rng = rng_for(SEED, "validation classes", dataset.name)
        classes = np.sort(rng.permutation(dataset.n_classes)[: settings.classes])
        few = _bounded(subset(dataset, classes), settings.per_class)
        way, shots, queries = min(settings.way, few.n_classes), settings.shots, settings.queries
        # Reading hands out the row itself: an episode is then two lists of rows.
        rows = replace(few, read=lambda i, _: i)
        self.episodes = []
        for k in range(settings.episodes):
            drawn = sample_episode(rows, way, shots, queries, SEED, k)
            sides = ((drawn.support, shots), (drawn.query, queries))
            # Classes come in turn on both sides.
            self.episodes.append(
                [np.array([s.read(i, 0) for i in range(len(s))]).reshape(way, n) for s, n in sides]
            )
        self.images = np.stack([few.read(i, size) for i in range(len(few))])

    def accuracies(self, embed: Embed) -> np.ndarray:
        """Accuracy of cosine prototypes in every episode, (episodes,)."""
        embeddings = embed(self.images)
        found = np.empty(len(self.episodes))
        for k, (support, query) in enumerate(self.episodes):
            prototypes, _ = unit(embeddings[support].mean(axis=1))
            chosen = (embeddings[query] @ prototypes.T).argmax(axis=-1)
            found[k] = (chosen == np.arange(len(query))[:, None]).mean()
        return found


def _bounded(dataset: Dataset, per_class: int) -> Dataset:
    """At most `per_class` images of every class, drawn at random."""
    rng = rng_for(SEED, "validation pictures", dataset.name)
    rows = np.concatenate([np.sort(rng.permutation(members)[:per_class]) for members in dataset.by_class])
    return dataset.take(rows)


def pooled(parts: list[Interval]) -> Interval:
    """Mean of domains, each with the same weight."""
    half = math.sqrt(sum(p.half**2 for p in parts)) / len(parts)
    return Interval(float(np.mean([p.mean for p in parts])), half, sum(p.n for p in parts))


@dataclass(frozen=True)
class Verdict:
    """What one validation found, by domain; `start` are accuracies of the first network.

    `left_out`: held-out domains, of which no image is trained on. `held_out`: classes kept from the sources.
    """

    left_out: dict[str, Interval]
    held_out: dict[str, Interval]
    start: dict[str, float] = field(default_factory=dict)

    @property
    def score(self) -> Interval:
        return pooled(list(self.left_out.values()))

    @property
    def selection_score(self) -> float:
        """What checkpoints are chosen by: the mean of held-out domains, what one of them lost counted thrice.

        A plain mean lets one domain pay for another: drawn images gain ten points where photographs,
        which the first network knew well, lose three.
        """
        lost = [max(0.0, self.start.get(name, 0.0) - found.mean) for name, found in self.left_out.items()]
        return self.score.mean - 2 * float(np.mean(lost))

    @property
    def source(self) -> Interval | None:
        return pooled(list(self.held_out.values())) if self.held_out else None

    def json(self) -> dict:
        def rows(found):
            return {name: [round(j.mean, 6), round(j.half, 6)] for name, j in found.items()}

        return {"left_out": rows(self.left_out), "held_out": rows(self.held_out)}


class Validator:
    """Judges an embedding on the domains of a recipe; decodes everything when it is made."""

    def __init__(self, settings: ValidationSettings, sources: list[Source], size: int):
        left_out = [open_source(d) for d in settings.domains]
        held_out = [s.held_out for s in sources if s.held_out is not None]
        # Held-out fractions may be too small for an episode; then they are only held out.
        held_out = [d for d in held_out if d.n_classes >= 2]
        self.left_out = [FixedEpisodes(d, settings, size) for d in left_out]
        self.held_out = [FixedEpisodes(d, settings, size) for d in held_out]
        self.start: dict[str, float] = {}

    def selection_score(self, embed: Embed) -> float:
        """`Verdict.selection_score`, which only looks at held-out domains."""
        return Verdict(self._judged(self.left_out, embed), {}, self.start).selection_score

    def __call__(self, embed: Embed) -> Verdict:
        return Verdict(self._judged(self.left_out, embed), self._judged(self.held_out, embed), self.start)

    @staticmethod
    def _judged(domains: list[FixedEpisodes], embed: Embed) -> dict[str, Interval]:
        return {d.name: mean_interval(d.accuracies(embed)) for d in domains}
