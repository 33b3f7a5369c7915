"""Finished deltas with names and paths: predict by them, add, rename and forget classes, export them."""

import os
import warnings
from collections.abc import Sequence

from tinytrain.api.opening import open_delta, open_images, open_network
from tinytrain.backbones.export import files
from tinytrain.base.errors import InputError
from tinytrain.datasets.dataset import Dataset
from tinytrain.delta import classes
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.episode.input_facts import file_lines
from tinytrain.episode.kinds import kind_of
from tinytrain.network.network import Network
from tinytrain.pipeline import add_classes as adding
from tinytrain.report import Report
from tinytrain.runtime import predict
from tinytrain.store import Store


class Predictor(predict.Predictor):
    """A network with a delta applied: ``Predictor(delta="fruit.safetensors")("new.jpg").name``.

    `delta` is a `Delta`, the path of its file, or the `Report` of the adaptation. `network` is a `Network`, a
    path or a name; by default the backbone of the delta is found by its digest, if it is the shipped one or
    in the cache. Raises InputError for a delta of another backbone, or if the backbone is not found.
    """

    def __init__(
        self,
        network: str | os.PathLike | Network | None = None,
        delta: str | os.PathLike | Delta | Report | None = None,
        backend: str = "auto",
    ):
        if delta is None:
            given = os.fspath(network) if isinstance(network, str | os.PathLike) else "fruit.safetensors"
            raise InputError("bad-value", f"no delta given; write Predictor(delta={given!r})")
        delta = open_delta(delta)
        super().__init__(open_network(network, delta), delta, backend)


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
    held, names, flip, facts = open_images(images, class_names, network.input)
    for line in map(kind_of(held.kind).words, file_lines(facts)):
        warnings.warn(line, stacklevel=2)
    return adding.add_classes(network, delta, held, names, seed, may_flip or flip, backend)


def rename(delta: str | os.PathLike | Delta | Report, old: str, new: str) -> Delta:
    """`delta` whose class `old` is called `new`; nothing else changes.

    `delta` is as in `Predictor`. Raises InputError ``unknown-class`` or ``class-names``.
    """
    return classes.rename(open_delta(delta), old, new)


def forget(delta: str | os.PathLike | Delta | Report, name: str) -> Delta:
    """`delta` without class `name`; ``delta.report["forgotten"]["traces"]`` says what still depends on it.

    `delta` is as in `Predictor`. Raises InputError ``unknown-class``, or ``too-few-classes`` if fewer than
    two classes would remain.
    """
    return classes.forget(open_delta(delta), name)


def export(
    delta: str | os.PathLike | Delta | Report,
    path: str | os.PathLike,
    network: str | os.PathLike | Network | None = None,
    *,
    labels: bool = False,
    float_input: bool = False,
) -> None:
    """Write the adapted network to `path`, all of it or nothing.

    ``.onnx`` and ``.tflite`` files classify by themselves: the classifier and the normalisation of pixels are
    inside, the class names too; they take uint8 images (n, height, width, channels) of the network's size, or
    float32 ones from 0 to 255 with `float_input`. With `labels` an ``.onnx`` file has the name of the most
    probable class as a second output, which few programs can read. ``.safetensors`` is a network file of this
    project, without the classifier, ``.delta`` the delta itself. `delta` and `network` are as in `Predictor`,
    and `delta` may be the folder of a store: its delta in use, with what was learnt since; that is no start.
    Raises UsageError for another suffix or an option that is not for it, InputError for a delta of another
    backbone, for a store without a delta, or if a package is missing, StorageError if the file cannot be
    written.
    """
    options = {"labels": labels, "float_input": float_input}
    alone = files.kind_of(path, **options) == files.DELTA
    delta = open_delta(_in_use(delta))
    files.export(None if alone else open_network(network, delta), delta, path, **options)


def _in_use(delta):
    """The delta in use if `delta` is the folder of a store, otherwise `delta`. Raises InputError."""
    if not isinstance(delta, str | os.PathLike) or not os.path.isdir(delta):
        return delta
    if (found := Store(delta).peek().delta) is None:
        raise InputError("store-missing", f"{os.fspath(delta)} has 0 deltas in use; commit one first")
    return found
