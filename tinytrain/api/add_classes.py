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
    held, names, flip = opened_images(images, class_names, network.input.shape)
    return pipeline.add_classes(network, delta, held, names, seed, may_flip or flip, backend)


def opened_images(
    images: str | os.PathLike | Dataset | Images,
    class_names: Sequence[str] | None,
    shape: tuple[int, int, int],
) -> tuple[Images, tuple[str, ...], bool]:
    """All usable images, the names that their labels count in, and whether they may be mirrored.

    Warns of files that cannot be used. Raises InputError.
    """
    if isinstance(images, Images):
        if class_names is None:
            raise InputError("class-names", "Images have numbers as labels; give class_names, one for each")
        return images, tuple(class_names), False
    if class_names is not None:
        raise InputError("class-names", "class_names are those of the folders; give them with Images only")
    dataset = open_dataset(images, "images")
    held, facts = all_decoded(dataset, shape)
    for line in file_lines(facts):
        warnings.warn(line, stacklevel=3)
    return held, dataset.class_names, dataset.may_flip
