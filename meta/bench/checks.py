"""What must hold before a number is believed: no leak between support and query."""

from functools import lru_cache

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.datasets import Dataset
from tinytrain.episode.episode import Episode


@lru_cache(maxsize=16)
def _places(dataset: Dataset) -> dict[str, int]:
    places = {name: i for i, name in enumerate(dataset.names)}
    if len(places) != len(dataset):
        raise InputError(
            "bad-value",
            f"{dataset.name!r} has {len(dataset)} images with {len(places)} names; give each one its own",
        )
    return places


def require_apart(dataset: Dataset, episode: Episode) -> None:
    """Raise InputError ``bad-value`` for an image that comes twice, or a group on both sides."""
    places = _places(dataset)
    support, query = ([places[name] for name in side.names] for side in (episode.support, episode.query))
    repeated = len(support) + len(query) - len({*support, *query})
    if repeated:
        raise InputError(
            "bad-value", f"{episode.source}: {repeated} images were drawn twice; correct the sampler"
        )
    if dataset.groups is not None:
        shared = np.intersect1d(dataset.groups[support], dataset.groups[query])
        if len(shared):
            raise InputError(
                "bad-value", f"{episode.source}: {len(shared)} groups are on both sides; correct the sampler"
            )
