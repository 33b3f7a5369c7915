"""Decodes images once and keeps them in memory, without the broken ones."""

from dataclasses import replace
from functools import partial
from math import prod

from tinytrain.base.errors import InputError
from tinytrain.base.progress import OnProgress, silent
from tinytrain.episode.episode import read_decoded

HELD_BYTES = 64_000_000  # limit of decoded images in memory; above it they are decoded again when needed


def fits(count: int, shape: tuple[int, int, int]) -> bool:
    """Whether so many decoded images of `shape` (height, width, channels) are kept in memory."""
    return count * prod(shape) <= HELD_BYTES


def hold(images, shape: tuple[int, int, int], progress: OnProgress = silent) -> tuple[object, dict[str, str]]:
    """`images` without the broken ones, and what is wrong with those, by name. All are decoded once for it.

    `shape` (height, width, channels) is what they are asked for.

    They are kept decoded, unless that takes more than HELD_BYTES: then they are decoded again when asked for.
    """
    keep = fits(len(images), shape)
    decoded, good, broken = [], [], {}
    for i in range(len(images)):
        try:
            image = images.image(i, shape)
        except InputError as error:
            broken[images.names[i]] = str(error)
        else:
            good.append(i)
            if keep:
                decoded.append(image)
        progress("images", i + 1, len(images), None)
    held = images.take(good)
    return replace(held, read=partial(read_decoded, decoded)) if keep else held, broken
