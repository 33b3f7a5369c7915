"""Does a sampler shuffle inside a class? Tried on films, whose frames are near-duplicates."""

import math
from collections.abc import Callable

import numpy as np

from tinytrain.datasets import Dataset
from tinytrain.episode.episode import Episode

FRAMES, CLASSES, EPISODES = 40, 8, 60  # on which samplers are tried
SIGMAS = 6  # a fair sampler is accused in fewer than one of a million checks


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


def _frames_by_class(episode: Episode) -> list[np.ndarray]:
    films: dict[str, list[int]] = {}
    for name in (*episode.support.names, *episode.query.names):
        film, frame = name.split("/")
        films.setdefault(film, []).append(int(frame))
    return [np.array(places) for places in films.values()]
