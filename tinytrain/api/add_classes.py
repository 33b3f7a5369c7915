"""`tinytrain.add_classes`: `tinytrain.pipeline.add_classes` with names and paths."""

import os
import warnings
from collections.abc import Sequence

from tinytrain.api.opening import open_dataset, open_delta, open_network
from tinytrain.base.errors import InputError
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.decoding import all_decoded
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.episode.input_facts import file_lines
from tinytrain.network.network import Network
from tinytrain.pipeline import add_classes as pipeline
from tinytrain.report import Report


def add_classes(
    network: str | os.PathLike | Network | None,
    delta: str | os.PathLike | Delta | Report,
    images: str | os.PathLike | Dataset | Images,
    class_names: Sequence[str] | None = None,
    seed: int = 0,
    may_flip: bool = False,
    backend: str = "auto",
) -> Delta:
    """A delta whose head also knows `images`, without the images that it was made from.

    `network` and `delta` are as in `Predictor`. `images` is the path of a folder with a folder of images per
    class, a `Dataset`, or `Images`, whose labels count in `class_names`. A class that the delta knows gets
    more images, any other is added. Only the head learns: see `tinytrain.pipeline.add_classes`. Files that
    cannot be used are warned of and skipped. Raises InputError for a delta of another backbone, a class
    without images, or class names that a delta cannot hold.
    """
    delta = open_delta(delta)
    network = open_network(network, delta)
    if isinstance(images, Images):
        if class_names is None:
            raise InputError("class-names", "Images have numbers as labels; give class_names, one for each")
        return pipeline.add_classes(network, delta, images, tuple(class_names), seed, may_flip, backend)
    if class_names is not None:
        raise InputError("class-names", "class_names are those of the folders; give them with Images only")
    dataset = open_dataset(images, "images")
    held, facts = all_decoded(dataset, network.input.shape)
    for line in file_lines(facts):
        warnings.warn(line, stacklevel=2)
    flip = may_flip or dataset.may_flip
    return pipeline.add_classes(network, delta, held, dataset.class_names, seed, flip, backend)
