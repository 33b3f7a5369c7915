"""`tinytrain.check`: `tinytrain.pipeline.check` with names and paths."""

import os
import warnings

from tinytrain.api.opening import open_dataset, open_network
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.folder import late
from tinytrain.episode.episode import Episode
from tinytrain.episode.holding import hold
from tinytrain.episode.input_facts import skipped_lines
from tinytrain.network.network import Network
from tinytrain.pipeline import check as pipeline
from tinytrain.runtime.device import Device


def check(
    network: str | os.PathLike | Network | None,
    images: str | os.PathLike | Dataset | Episode,
    seed: int = 0,
    device: Device | None = None,
) -> pipeline.Check:
    """Whether labelled images are enough: expected accuracy, suspects, what five more per class would bring.

    `network` is as in `adapt`. `images` is the path of a folder with a folder of images per class, a
    `Dataset`, or an `Episode`, whose queries are not looked at. Nothing is trained. Files that cannot be used
    are warned of and skipped. Raises InputError as `adapt` does.
    """
    network = open_network(network)
    if isinstance(images, Episode):
        return pipeline.check(network, images, seed, device, [d.to_json() for d in images.duplicates])
    dataset = open_dataset(images, "images", "an Episode, ")
    held, broken = hold(dataset.images(dataset.by_class), network.input.shape)
    facts = dataset.provenance
    for line in skipped_lines((*facts.skipped, *late(None if dataset is images else images, broken))):
        warnings.warn(line, stacklevel=2)
    episode = Episode(held, held.take([]), tuple(dataset.class_names))
    return pipeline.check(network, episode, seed, device, [d.to_json() for d in facts.duplicates])
