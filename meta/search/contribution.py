"""Contribution analysis: the accuracy that training one part of a network alone gains, over episodes."""

from dataclasses import dataclass

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.progress import OnProgress, silent
from tinytrain.datasets import sample_episode
from tinytrain.datasets.dataset import Dataset
from tinytrain.episode.episode import Episode
from tinytrain.meta.bench.sampler import decoded
from tinytrain.meta.run_log import Log, any_row
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
    log: Log,
    identity: dict,
    workers: int,
    progress: OnProgress = silent,
) -> Contributions:
    """Mean gains of all parts over the unadapted network; what the log holds is not measured again.

    `identity` says what they are measured on. Raises InputError ``run-mismatch`` for the log of others.
    """
    parts, gains = space.parts(), known_gains(log, identity)
    if not log.rows:
        log.append([identity])
    done, total = 0, draw.episodes * len(parts)
    for k in range(draw.episodes):
        episode = None
        for part in parts:
            if (part.name, k) not in gains:
                if episode is None:
                    drawn = sample_episode(dataset, draw.way, draw.shots, draw.queries, draw.seed, k)
                    episode = decoded(drawn, space.network)
                gains[part.name, k] = gain_of(space.network, part, episode, draw.seed, workers)
                log.append([{"part": part.name, "episode": k, "gain": gains[part.name, k]}])
            done += 1
            progress("contributions", done, total, None)
    means = {part: float(np.mean([gains[part.name, k] for k in range(draw.episodes)])) for part in parts}
    return Contributions(space, means)


def log_row(value) -> dict:
    """A line of a log: a gain, or what the gains were measured on."""
    row = any_row(value)
    if "part" in row:
        row |= {"episode": int(row["episode"]), "gain": float(row["gain"])}
    return row


def known_gains(log: Log, identity: dict) -> dict[tuple[str, int], float]:
    """Gains by (name of the part, episode); the first line of a log is the `identity` of its analysis."""
    differing = sorted(k for k in identity if log.rows and log.rows[0].get(k) != identity[k])
    if differing:
        raise InputError(
            "run-mismatch",
            f"{log.path} was measured with another {', '.join(differing)}; name another --log",
        )
    return {(row["part"], row["episode"]): row["gain"] for row in log.rows[1:]}


def gain_of(network: Network, part: Part, episode: Episode, seed: int, workers: int) -> float:
    """Accuracy after training `part` alone minus that of the unadapted network; both by cosine prototypes."""
    alone = policy(part.name, lambda network: (part.configuration,))
    report = adapt(network, episode, BUDGET, alone, seed, Device(threads=workers), force=True)
    accuracy = report.to_json()["accuracy"]
    return accuracy["after"] - accuracy["before_cosine"]
