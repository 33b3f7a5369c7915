"""Writes an adapted network to a file of the kind in its name; it imports nothing heavy before that."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tinytrain.base.errors import UsageError
from tinytrain.base.files import write_bytes

if TYPE_CHECKING:
    from tinytrain.delta.delta import Delta
    from tinytrain.network.committee import Committee
    from tinytrain.network.network import Network


def _onnx() -> Callable[..., bytes]:
    from tinytrain.backbones.export.onnx_model import onnx_model

    return onnx_model


def _tflite() -> Callable[..., bytes]:
    from tinytrain.backbones.export.tflite_model import tflite_model

    return tflite_model


def _network() -> Callable[..., bytes]:
    from tinytrain.delta.delta import apply
    from tinytrain.network.file import encode_network

    def encode(network: Network | Committee, delta: Delta) -> bytes:
        if delta.members:
            raise UsageError(
                "unsupported",
                f"a network file holds one network, {network} has {len(delta.members)}; write .onnx, .tflite"
                f" or {DELTA}, which hold all of them",
            )
        return encode_network(apply(network, delta))

    return encode


def _delta() -> Callable[..., bytes]:
    from tinytrain.delta.file import encode_delta

    return lambda network, delta: encode_delta(delta)


DELTA = ".delta"  # without the network
# Suffix -> what imports the function that makes the bytes. Only .safetensors is without the head.
KINDS = {".onnx": _onnx, ".tflite": _tflite, ".safetensors": _network, DELTA: _delta}
ENDINGS = "{}, {}, {} or {}".format(*KINDS)
# Option of `export` -> the suffixes that it is for.
OPTIONS = {"labels": (".onnx",), "float_input": (".onnx", ".tflite")}


def kind_of(path: str | os.PathLike, **options: bool) -> str:
    """The suffix of `path`, one of KINDS. Raises UsageError for it or an option with it."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in KINDS:
        raise UsageError("usage", f"{os.fspath(path)!r} must end in {ENDINGS}")
    for option in (option for option, wanted in options.items() if wanted and suffix not in OPTIONS[option]):
        only, name = " and ".join(OPTIONS[option]), option.replace("_", "-")
        raise UsageError("usage", f"{name} is for {only} files, not for {suffix}; leave it out")
    return suffix


def export(
    network: Network | Committee | None, delta: Delta, path: str | os.PathLike, **options: bool
) -> None:
    """Write `network` with `delta` applied to `path`, all of it or nothing.

    ``.onnx`` and ``.tflite`` files classify by themselves; ``.safetensors`` is a network file of this
    project, without the head; ``.delta`` is the delta alone, for which `network` may be None. `options` are
    those of the kind, as keys of OPTIONS. Raises UsageError for another suffix, an option of another one, or
    a committee as a network file, InputError for a delta of another backbone, or if a package is missing,
    AnswerError if the adapted network answers NaN or infinity to an image of noise, StorageError if the file
    cannot be written.
    """
    from tinytrain.base.random_streams import rng_for
    from tinytrain.runtime.predict import Predictor

    suffix = kind_of(path, **options)
    if network is not None and network.input.dtype == "float32" and suffix in OPTIONS["float_input"]:
        options["float_input"] = True
    content = KINDS[suffix]()(network, delta, **{option: True for option in options if options[option]})
    if suffix != DELTA:
        noise = rng_for(0, "image to try an export").integers(0, 256, network.input.shape, "uint8")
        noise = noise.astype(network.input.dtype)
        Predictor(network, delta, "numpy").predict(noise)  # in numpy nothing is compiled for it
    write_bytes(path, content)
