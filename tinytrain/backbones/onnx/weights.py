"""Weights of an ONNX model that lie in a file of their own, as PyTorch's exporter writes them by default."""

import os

from tinytrain.base.errors import InputError
from tinytrain.base.file_kinds import JOIN
from tinytrain.base.files import read_bytes

AGAIN = "export the model again"
DIGITS = 12  # of the places in a file


def take_in(onnx, model, path: str | os.PathLike, limit: int) -> None:
    """Move the weights that lie in ``<path>.data``, of at most `limit` bytes, into `model`, which is `path`.

    Raises InputError ``unsupported`` for weights in any other file, which is never opened, ``file-damaged``
    for places that the file does not have, or a code of `read_bytes`.
    """
    source, beside = str(path), f"{os.fspath(path)}.data"
    tensors = [tensor for tensor in model.graph.initializer if tensor.external_data]
    places = [_place(tensor, os.path.basename(beside), source) for tensor in tensors]
    data = memoryview(read_bytes(beside, max(1, limit)))
    end = max(last for _, last in places)
    if end > len(data):
        raise InputError(
            "file-damaged", f"{beside} holds {len(data):,} bytes, the weights go up to {end:,}; {AGAIN}"
        )
    for tensor, (first, last) in zip(tensors, places, strict=True):
        tensor.raw_data = bytes(data[first:last])
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.DEFAULT


def _place(tensor, name: str, source: str) -> tuple[int, int]:
    """First byte of the values of `tensor` in the file `name`, and the byte behind the last."""
    facts = {entry.key: entry.value for entry in tensor.external_data}
    if facts.get("location") != name:
        raise elsewhere(tensor, source)
    numbers = facts.get("offset", "0"), facts.get("length", "")
    if not all(text.isascii() and text.isdecimal() and len(text) <= DIGITS for text in numbers):
        raise unreadable(tensor, source)
    first, length = map(int, numbers)
    return first, first + length


def elsewhere(tensor, source: str) -> InputError:
    name = f"{os.path.basename(source)}.data"
    return InputError(
        "unsupported",
        f"{source}: tensor {tensor.name[:80]!r} is in another file than {name} beside it, and no other is"
        f" opened; join the two in Python with {JOIN}, then import the result",
    )


def unreadable(tensor, source: str) -> InputError:
    return InputError("file-damaged", f"{source}: tensor {tensor.name[:80]!r} cannot be read; {AGAIN}")
