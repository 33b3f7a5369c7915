"""A whole search: contributions, evolution, and how published configurations fare by the same objective."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from tinytrain.base.errors import UsageError
from tinytrain.datasets import sample_episode
from tinytrain.datasets.dataset import Dataset
from tinytrain.meta.run_log import opened
from tinytrain.meta.search.contribution import Draw, log_row, measure
from tinytrain.meta.search.evolve import Found, check_limit, evolve
from tinytrain.meta.search.space import Contributions, Space
from tinytrain.policies.sparse_update import Configuration, published


@dataclass(frozen=True, eq=False)
class Searched:
    """The outcome of `search`; `rivals` are published configurations of the network that fit the budget."""

    table: Contributions
    found: Found
    rivals: tuple[Configuration, ...]

    def json(self) -> dict:
        space = self.table.space
        return {
            "network": space.network.name,
            "digest": space.network.digest,
            "found": self._facts(self.found.configuration),
            "published": [self._facts(rival) for rival in self.rivals],
            "contributions": {part.name: round(gain, 6) for part, gain in self.table.gains.items()},
        }

    def _facts(self, configuration: Configuration) -> dict:
        return {
            "biases": configuration.biases,
            "shares": {str(i): fraction for i, fraction in sorted(configuration.shares.items())},
            "gain": round(self.table.objective(configuration), 6),
            "memory": round(self.table.space.memory(configuration)),
        }


def identity(space: Space, dataset: Dataset, draw: Draw) -> dict:
    """What a contribution depends on, besides its part and the number of its episode."""
    data = f"{dataset.name}: {len(dataset)} images of {dataset.n_classes} classes"
    facts = {"network": space.network.digest, "data": data, **asdict(draw)}
    del facts["episodes"]  # more of them continue a log
    return facts


class Evolution(NamedTuple):
    """Within `limit` bytes of extra memory, `samples` configurations are tried."""

    limit: float
    samples: int


def search(
    space: Space, dataset: Dataset, draw: Draw, evolution: Evolution, log: Path, workers: int, progress
) -> Searched:
    """Measure, then evolve; `progress` is a ProgressLine's callback.

    Raises BudgetError, before anything is measured, and what the data and the log raise.
    """
    limit, samples = evolution
    check_limit(space, limit)
    sample_episode(dataset, draw.way, draw.shots, draw.queries, draw.seed, 0)
    with opened(log, log_row) as held:
        table = measure(space, dataset, draw, held, identity(space, dataset, draw), workers, progress)
    found = evolve(table, limit, draw.seed, samples)
    return Searched(table, found, tuple(_inside(table, limit)))


def _inside(table: Contributions, limit: float):
    """Published configurations of the network that the space holds and that fit."""
    try:
        configurations = published(table.space.network)
    except UsageError:
        return
    for configuration in configurations:
        try:
            table.objective(configuration)
        except UsageError:
            continue
        if table.space.memory(configuration) <= limit:
            yield configuration
