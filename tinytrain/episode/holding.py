"""Decodes images once and keeps them in memory, without the broken ones."""

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.progress import OnProgress, silent
from tinytrain.episode import Input, spec_of
from tinytrain.episode.episode import Episode, read_decoded
from tinytrain.episode.kinds import kind_of

HELD_BYTES = 64_000_000  # limit of decoded images in memory; above it they are decoded again when needed


def fits(count: int, given: Input) -> bool:
    """Whether so many decoded images, as `given` describes them, are kept in memory."""
    spec = spec_of(given)
    return count * prod(spec.shape) * np.dtype(spec.dtype).itemsize <= HELD_BYTES


def hold(images, given: Input, progress: OnProgress = silent) -> tuple[object, dict[str, str]]:
    """`images` without the broken ones, and what is wrong with those, by name. All are decoded once for it.

    They are asked for as `given` describes them. They are kept decoded, unless that takes more than
    HELD_BYTES: then they are decoded again when asked for. Raises InputError for another kind, and
    ``backbone-not-here`` if what all are read with is missing.
    """
    images.check_kind(given)
    keep = fits(len(images), given)
    decoded, good, broken = [], [], {}
    for i in range(len(images)):
        try:
            image = images.image(i, given)
        except InputError as error:
            if error.code == "backbone-not-here":  # it is not the image that is broken
                raise
            broken[images.names[i]] = str(error)
        else:
            good.append(i)
            if keep:
                decoded.append(image)
        progress(kind_of(images.kind).plural, i + 1, len(images), None)
    held = images.take(good)
    return replace(held, read=partial(read_decoded, decoded)) if keep else held, broken


def held(episode: Episode, given: Input) -> Episode:
    """`episode` with its images decoded once, as `given` describes them, and kept in memory.

    Training looks at an image many times. Unchanged if that takes more than HELD_BYTES. Raises InputError.
    """
    if not fits(len(episode.readable) + len(episode.query), given):
        return episode
    support = replace(episode.support, read=episode.readable.held(given).read)
    return replace(episode, support=support, query=episode.query.held(given))
