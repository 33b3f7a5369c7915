"""Writes an adapted network to a file of the kind in its name; it imports nothing heavy before that."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tinytrain.base.errors import UsageError
from tinytrain.base.files import write_bytes

if TYPE_CHECKING:
    from tinytrain.delta.delta import Delta
    from tinytrain.network.network import Network


def _onnx() -> Callable[[Network, Delta], bytes]:
    from tinytrain.backbones.export.onnx_model import onnx_model

    return onnx_model


def _tflite() -> Callable[[Network, Delta], bytes]:
    from tinytrain.backbones.export.tflite_model import tflite_model

    return tflite_model


def _network() -> Callable[[Network, Delta], bytes]:
    from tinytrain.delta.delta import apply
    from tinytrain.network.file import encode_network

    return lambda network, delta: encode_network(apply(network, delta))


# Suffix -> what imports the function that makes the bytes. Only .safetensors is without the head.
KINDS = {".onnx": _onnx, ".tflite": _tflite, ".safetensors": _network}
ENDINGS = "{}, {} or {}".format(*KINDS)


def kind_of(path: str | os.PathLike) -> str:
    """The suffix of `path`, one of KINDS. Raises UsageError ``export-kind``."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in KINDS:
        raise UsageError("export-kind", f"{os.fspath(path)!r} must end in {ENDINGS}")
    return suffix


def export(network: Network, delta: Delta, path: str | os.PathLike) -> None:
    """Write `network` with `delta` applied to `path`, all of it or nothing.

    ``.onnx`` and ``.tflite`` files classify by themselves; ``.safetensors`` is a network file of this
    project, without the head. Raises UsageError for another suffix, InputError for a delta of another
    backbone, or if a package is missing, StorageError if the file cannot be written.
    """
    write_bytes(path, KINDS[kind_of(path)]()(network, delta))
