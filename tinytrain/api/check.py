"""`tinytrain.check`: `tinytrain.pipeline.check` with names and paths."""

import os
import warnings

from tinytrain.api.opening import open_dataset, open_network
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.decoding import decoded
from tinytrain.episode.episode import Episode
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
        return pipeline.check(network, images, seed, device)
    dataset = open_dataset(images, "images", "an Episode, ")
    episode = decoded(dataset, pipeline.episode_of(dataset), network.input.shape)
    for line in skipped_lines(episode.skipped):
        warnings.warn(line, stacklevel=2)
    return pipeline.check(network, episode, seed, device)
