"""One numeric array from a MATLAB 5 file, strictly: what the labels of VGG Flowers are kept in.

Format: "MAT-File Format", MathWorks, level 5. Every size is compared with the bytes that are there before
anything is allocated; only real, numeric, two-dimensional arrays are read.
"""

import struct
import zlib
from pathlib import Path

import numpy as np

from tinytrain.base.files import read_bytes
from tinytrain.datasets.meta_dataset.listing import broken

LIMIT = 2**24  # bytes of a file, and of what all its compressed parts unpack to
HEADER = 128
MATRIX, COMPRESSED = 14, 15
TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
NUMERIC_CLASSES = range(6, 16)  # double, single and the integers of 8 to 64 bits
COMPLEX = 0x0800


class _BrokenMatError(Exception):
    """Why a file cannot be read; becomes an InputError that names the file."""


def read_mat(path: Path, name: str) -> np.ndarray:
    """The array called `name`, in the number type that it is stored in. Raises InputError."""
    data = read_bytes(path, LIMIT)
    try:
        return _find(data, name)
    except _BrokenMatError as error:
        raise broken(path, f"is no MATLAB 5 file with an array {name!r} ({error})") from error


def _find(data: bytes, name: str) -> np.ndarray:
    order = {b"IM": "<", b"MI": ">"}.get(data[126:HEADER])
    if order is None or struct.unpack_from(order + "H", data, 124)[0] != 0x0100:
        raise _BrokenMatError("the header is of another kind")
    at, room = HEADER, LIMIT
    while at < len(data):
        kind, content, at = _element(data, at, order)
        if kind == COMPRESSED:
            whole = _inflated(content, room)
            room -= len(whole)
            kind, content, _ = _element(whole, 0, order)
        if kind == MATRIX and (array := _matrix(content, order, name)) is not None:
            return array
    raise _BrokenMatError("it is not in there")


def _element(data: bytes, at: int, order: str) -> tuple[int, bytes, int]:
    """Type and content of the data element at `at`, and where the next one starts."""
    if at + 8 > len(data):
        raise _BrokenMatError(f"cut off at byte {at}")
    kind, size = struct.unpack_from(order + "II", data, at)
    if kind >> 16:  # up to four bytes of content share the eight bytes of the tag
        kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        if size > 4:
            raise _BrokenMatError(f"small element of {size} bytes at byte {at}")
    else:
        start = at + 8
        end = start + (size if kind == COMPRESSED else (size + 7) // 8 * 8)
    if start + size > len(data):
        raise _BrokenMatError(f"element of {size} bytes at byte {at}, the end is at {len(data)}")
    return kind, data[start : start + size], end


def _inflated(content: bytes, room: int) -> bytes:
    """The bytes that `content` unpacks to, at most `room`."""
    unpacker = zlib.decompressobj()
    try:
        whole = unpacker.decompress(content, max(room, 1))
    except zlib.error as error:
        raise _BrokenMatError(f"compressed part: {error}") from error
    if not unpacker.eof:
        raise _BrokenMatError("compressed part is cut off or too large")
    return whole


def _matrix(content: bytes, order: str, name: str) -> np.ndarray | None:
    """The array of a matrix element; None if it has another name."""
    flags_kind, flags, at = _element(content, 0, order)
    dims_kind, dims, at = _element(content, at, order)
    _, found, at = _element(content, at, order)
    if found != name.encode():
        return None
    flag = struct.unpack(order + "I", flags[:4])[0] if flags_kind == 6 and len(flags) == 8 else COMPLEX
    if flag & 0xFF not in NUMERIC_CLASSES or flag & COMPLEX:
        raise _BrokenMatError("it is not real and numeric")
    if dims_kind != 5 or len(dims) != 8:
        raise _BrokenMatError("it does not have two dimensions")
    shape = struct.unpack(order + "ii", dims)
    kind, values, _ = _element(content, at, order)
    if kind not in TYPES:
        raise _BrokenMatError(f"number type {kind}")
    dtype = np.dtype(TYPES[kind]).newbyteorder(order)
    if min(shape) < 0 or shape[0] * shape[1] * dtype.itemsize != len(values):
        raise _BrokenMatError(f"{shape} of {dtype.name} in {len(values)} bytes")
    return np.frombuffer(values, dtype).reshape(shape, order="F").astype(dtype.newbyteorder("="))
