"""`tinytrain.export`: an adapted network as a file, with names and paths."""

import os

from tinytrain.api.opening import open_delta, open_network
from tinytrain.backbones.export import files
from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta
from tinytrain.network.network import Network
from tinytrain.report import Report
from tinytrain.store import Store


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
