"""Images of a dataset, decoded once: the broken ones are left out and listed with the reason."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.progress import OnProgress, silent
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.folder import late
from tinytrain.episode import Input
from tinytrain.episode.episode import Episode, Images
from tinytrain.episode.holding import hold
from tinytrain.episode.kinds import kind_of


def decoded(
    dataset: Dataset,
    episode: Episode,
    given: Input,
    progress: OnProgress = silent,
    redraw: Callable[[Dataset], Episode] | None = None,
) -> Episode:
    """An `episode` of `dataset` with its images decoded as `given` describes them.

    It has no broken images, and lists them as skipped. If one is in the support, `redraw` draws another
    episode from a dataset without it; None: there are no other images to adapt to. Raises InputError if a
    class of the dataset has broken images only.
    """
    broken: dict[str, str] = {}
    support, found = hold(episode.support, given, progress)
    while found:  # what looked whole was not
        broken |= found
        whole = _without(dataset, broken)
        if redraw is None:
            break
        episode, support = redraw(whole), None  # frees the images that are not used
        support, found = hold(episode.support, given, progress)
    query, more = hold(episode.query, given, progress)
    facts = dataset.provenance
    skipped = (*facts.skipped, *late(dataset, broken | more))
    return replace(episode, support=support, query=query, skipped=skipped, duplicates=facts.duplicates)


def all_decoded(dataset: Dataset, given: Input, progress: OnProgress = silent) -> tuple[Images, Provenance]:
    """All images of `dataset`, decoded as `given` describes them, and where they come from.

    The broken ones are left out, and listed as skipped.
    """
    images, broken = hold(dataset.images(dataset.by_class), given, progress)
    facts = dataset.provenance
    return images, replace(facts, skipped=(*facts.skipped, *late(dataset, broken)))


def _without(dataset: Dataset, broken: dict[str, str]) -> Dataset:
    """`dataset` without the `broken` images. Raises InputError if a class has no others."""
    good = np.array([name not in broken for name in dataset.names])
    for c, indices in enumerate(dataset.by_class):
        if len(indices) and not good[indices].any():
            reason = broken[dataset.names[indices[0]]]
            name, plural = dataset.class_names[c], kind_of(dataset.kind).plural
            raise InputError("too-few-images", f"class {name!r} has 0 usable {plural}: {reason}")
    return dataset.take(np.flatnonzero(good))
