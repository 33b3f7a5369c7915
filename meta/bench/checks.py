"""What must hold before a number is believed: no leak between support and query, no order in the draw."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.datasets import Dataset
from tinytrain.episode.episode import Episode
from tinytrain.meta.bench.sampler import Sampler

FRAMES, CLASSES, EPISODES = 40, 8, 60  # on which samplers are tried
SIGMAS = 6  # a fair sampler is accused in fewer than one of a million checks


@lru_cache(maxsize=16)
def _places(dataset: Dataset) -> dict[str, int]:
    places = {name: i for i, name in enumerate(dataset.names)}
    if len(places) != len(dataset):
        raise InputError(
            "names-repeat",
            f"{dataset.name!r} has {len(dataset)} images with {len(places)} names; give each one its own",
        )
    return places


def require_apart(dataset: Dataset, episode: Episode) -> None:
    """Raise InputError ``leak`` for an image that comes twice, or a group on both sides."""
    places = _places(dataset)
    support, query = ([places[name] for name in side.names] for side in (episode.support, episode.query))
    repeated = len(support) + len(query) - len({*support, *query})
    if repeated:
        raise InputError("leak", f"{episode.source}: {repeated} images were drawn twice; correct the sampler")
    if dataset.groups is not None:
        shared = np.intersect1d(dataset.groups[support], dataset.groups[query])
        if len(shared):
            raise InputError(
                "leak", f"{episode.source}: {len(shared)} groups are on both sides; correct the sampler"
            )


def frames(classes: int = CLASSES, length: int = FRAMES) -> Dataset:
    """Classes that are films: neighbouring images are near-duplicates. A name is film/frame."""
    labels = np.repeat(np.arange(classes, dtype=np.int32), length)
    return Dataset(
        name="frames",
        labels=labels,
        class_names=tuple(f"film {c}" for c in range(classes)),
        names=tuple(f"{c}/{f}" for c in range(classes) for f in range(length)),
        read=lambda i, size: np.full((size, size, 3), 255 * (i % length) // length, np.uint8),
    )


def order_in_the_draw(
    sample: Callable[[Dataset, int], Episode], dataset: Dataset | None = None, episodes: int = EPISODES
) -> list[str]:
    """What gives away that ``sample(dataset, index)`` does not shuffle inside a class; empty if it does.

    Two counts over the classes of `episodes` draws: images next to each other in the file, of which m out
    of n drawn at random give m (m - 1) / n, and draws that contain a given place, m / n for every place.
    """
    dataset = dataset or frames()
    length = len(dataset) // dataset.n_classes
    adjacent, expected, drawn, chances = 0, 0.0, np.zeros(length), 0.0
    for index in range(episodes):
        for places in _frames_by_class(sample(dataset, index)):
            m = len(places)
            adjacent += int((np.diff(np.sort(places)) == 1).sum())
            expected += m * (m - 1) / length
            drawn[places] += 1
            chances += m / length
    findings = []
    if adjacent > expected + SIGMAS * math.sqrt(expected):
        findings.append(
            f"{adjacent} pairs of neighbouring frames in {episodes} episodes, {expected:.0f} by chance"
        )
    uneven = np.abs(drawn - chances).max()
    if uneven > SIGMAS * math.sqrt(chances):
        place = int(np.abs(drawn - chances).argmax())
        findings.append(f"place {place} was drawn {drawn[place]:.0f} times, {chances:.0f} by chance")
    return findings


def require_shuffle(sampler: Sampler) -> None:
    """Raise InputError ``ordered-draw`` for a sampler that does not shuffle inside a class."""
    length = max(FRAMES, 4 * (sampler.shots + sampler.queries))
    findings = order_in_the_draw(sampler.draw, frames(max(CLASSES, sampler.way), length))
    if findings:
        raise InputError(
            "ordered-draw",
            f"{sampler.name}: {findings[0]}; near-duplicates would be on both sides; correct the sampler",
        )


def _frames_by_class(episode: Episode) -> list[np.ndarray]:
    films: dict[str, list[int]] = {}
    for name in (*episode.support.names, *episode.query.names):
        film, frame = name.split("/")
        films.setdefault(film, []).append(int(frame))
    return [np.array(places) for places in films.values()]
