"""To train again while no image waits: with the corrected images that are kept, and what the delta remembers.

A part of the kept images is held out and judges: the result must be accepted by the guard and get as many of
them right as the head that has learnt from them, which is more than it would get of new ones. So it is only
taken where it is clearly better.
"""

from collections import Counter
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Episode, Images
from tinytrain.episode.sources import images_of
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.continual import NO_IMAGES, continued_episode, continued_policy, with_forgotten
from tinytrain.runtime.predict import Predictor

LEAST_IMAGES = 8  # kept, for training to be worth it
LEAST_OF_CLASS = 2  # of every class, if the delta remembers none
HELD_OUT = 4  # every so manieth image of a class is held out


def is_enough(delta: Delta, counts: Counter) -> bool:
    """Whether `counts` kept images by class are enough to adapt again."""
    known = {name: count for name, count in counts.items() if name in delta.class_names}
    if sum(known.values()) < LEAST_IMAGES:
        return False
    return delta.replay is not None or all(known.get(n, 0) >= LEAST_OF_CLASS for n in delta.class_names)


def readapt(
    network: Network, delta: Delta, files: list[tuple[Path, str]], seed: int = 0
) -> tuple[Delta | None, str]:
    """The delta that was adapted to `files` with their classes, None if it is not better, and why.

    `delta` has learnt from all of them.
    """
    known = [(path, name) for path, name in files if name in delta.class_names]
    held, rest = _divided(known)
    names = delta.class_names
    try:
        if delta.replay is not None:
            given = tuple(sorted({name for _, name in rest}))
            episode = continued_episode(delta, _images(rest, given), given)
            policy = continued_policy(delta)
        else:
            episode, policy = Episode(_images(rest, names), NO_IMAGES, names), "tinytrain"
        report = with_forgotten(adapt(network, episode, policy=policy, seed=seed), delta)
    except InputError as error:
        return None, str(error)
    if not report.guard.accepted:
        return None, report.guard.reasons[0].text
    if not held:
        return None, "no image of a class could be held out to judge by"
    images = _images(held, names)
    before, after = (_accuracy(network, d, images, names) for d in (delta, report.delta))
    why = f"{after:.0%} of {len(held)} held-out images are right, {before:.0%} before"
    return report.delta if after >= before else None, why


def _divided(files: list[tuple[Path, str]]):
    """Every HELD_OUT-th image of each class, and the others."""
    held, rest, seen = [], [], Counter()
    for file in files:
        seen[file[1]] += 1
        (held if seen[file[1]] % HELD_OUT == 0 else rest).append(file)
    return held, rest


def _images(files: list[tuple[Path, str]], names: tuple[str, ...]) -> Images:
    return images_of([path for path, _ in files], np.array([names.index(n) for _, n in files], np.int32))


def _accuracy(network: Network, delta: Delta, images: Images, names: tuple[str, ...]) -> float:
    """Fraction of `images`, whose labels count in `names`, that `delta` gets right."""
    found = Predictor(network, delta).probabilities(images).argmax(axis=1)
    return float(
        np.mean([delta.class_names[k] == names[label] for k, label in zip(found, images.labels, strict=True)])
    )
