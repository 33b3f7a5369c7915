"""Contribution analysis: the accuracy that training one part of a network alone gains, over episodes."""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.progress import Progress, silent
from tinytrain.datasets import sample_episode
from tinytrain.datasets.dataset import Dataset
from tinytrain.episode.episode import Episode
from tinytrain.meta.search.log import SearchLog
from tinytrain.meta.search.space import Contributions, Part, Space
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.policies.sparse_update import policy
from tinytrain.runtime.device import Device

# Training one part takes what it takes: here nothing is searched for, so nothing is limited.
BUDGET = Budget(memory=2**31, macs=1e9)


@dataclass(frozen=True)
class Draw:
    """The episodes that gains are measured on."""

    episodes: int = 10
    way: int = 5
    shots: int = 5
    queries: int = 10
    seed: int = 0


def measure(
    space: Space,
    dataset: Dataset,
    draw: Draw,
    log: SearchLog,
    workers: int,
    progress: Progress = silent,
) -> Contributions:
    """Mean gains of all parts over the unadapted network; what the log holds is not measured again."""
    parts = space.parts()
    done, total = 0, draw.episodes * len(parts)
    for k in range(draw.episodes):
        episode = None
        for part in parts:
            if (part.name, k) not in log.gains:
                episode = episode or draw_episode(dataset, draw, space.network, k)
                log.append(part.name, k, gain_of(space.network, part, episode, draw.seed, workers))
            done += 1
            progress("contributions", done, total, None)
    gains = {part: float(np.mean([log.gains[part.name, k] for k in range(draw.episodes)])) for part in parts}
    return Contributions(space, gains)


def gain_of(network: Network, part: Part, episode: Episode, seed: int, workers: int) -> float:
    """Accuracy after training `part` alone minus that of the unadapted network; both by cosine prototypes."""
    alone = policy(part.name, lambda network: (part.configuration,))
    report = adapt(network, episode, BUDGET, alone, seed, Device(threads=workers), force=True)
    accuracy = report.to_json()["accuracy"]
    return accuracy["after"] - accuracy["before_cosine"]


def draw_episode(dataset: Dataset, draw: Draw, network: Network, k: int) -> Episode:
    """Episode k, whose images are decoded once for all parts. Raises InputError."""
    episode = sample_episode(dataset, draw.way, draw.shots, draw.queries, draw.seed, k)
    shape = network.input.shape
    return replace(episode, support=episode.support.held(shape), query=episode.query.held(shape))
