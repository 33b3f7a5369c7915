"""Named arrays in a file: the safetensors format, strict on reading and deterministic on writing.

Format: 8 bytes little-endian header length, a JSON header, then the arrays without gaps. The
safetensors library accepts every file that this reader accepts; this reader is stricter in dtypes,
counts and sizes. It checks everything before it allocates, and the arrays are views of the bytes read.

`encode` adds ``file_sha256`` to the metadata: the SHA-256 of the whole file with 64 zeros in place of
this value. `decode` checks and removes it. A file without it (from another program or an older version) is
read unchecked.
"""

import hashlib
import json
import math
import os

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes

MAX_FILE = 64 * 2**20
MAX_HEADER = 10**6
MAX_TENSORS = 4096
MAX_RANK = 8
MAX_ELEMENTS = 2**40
MAX_DIGITS = 18
DTYPES = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8"), "I32": np.dtype("<i4")}
DTYPES |= {"I8": np.dtype("i1"), "U8": np.dtype("u1")}
FIELDS = {"dtype", "shape", "data_offsets"}
CHECKSUM, NO_CHECKSUM = "file_sha256", "0" * 64


def _damaged(problem: str) -> InputError:
    return InputError("file-damaged", problem)


def encode(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """Bytes of a file with `tensors` (float32, int64, int32, int8 or uint8) and `metadata`.

    The order of the entries does not change the bytes. Raises ValueError for another dtype, and
    InputError if `decode` could not read the result, for example ``file-damaged``.
    """
    names = {dtype: name for name, dtype in DTYPES.items()}
    offset = 0
    header = {"__metadata__": dict(sorted({**metadata, CHECKSUM: NO_CHECKSUM}.items()))}
    # Widest dtype first, so that every array starts at a multiple of its item size.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    for name, array in ordered:
        if array.dtype not in names or name == "__metadata__":
            raise ValueError(f"cannot store {name!r} of dtype {array.dtype}")
        span = [offset, offset + array.nbytes]
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": span}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    contents = [array.tobytes() for _, array in ordered]
    head = head.replace(_entry_of(NO_CHECKSUM), _entry_of(_checksum(head, *contents)))
    data = b"".join([head, *contents])
    decode(data, "the file to be written")
    return data


def value_places(metadata: dict[str, str]) -> dict[str, int]:
    """Where the text of each value of `metadata`, and of the checksum, begins in what `encode` gives."""
    at, found = 8 + len('{"__metadata__":{'), {}
    for name, value in sorted({**metadata, CHECKSUM: NO_CHECKSUM}.items()):
        found[name] = at + len(json.dumps(name)) + len(':"')
        at = found[name] + len(json.dumps(value))  # its second quote and a comma are as long as two quotes
    return found


def read_file(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """`decode` of the regular file `path`, at most 64 MiB. Raises InputError."""
    return decode(read_bytes(path, MAX_FILE), str(path))


def decode(data, source: str = "file") -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read-only arrays and metadata of `data` (bytes or a read-only mmap); the arrays are views of it.

    `source` names the data in messages. Raises InputError ``file-damaged``.
    """
    header, start = _read_header(data, source)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(f"{source}: metadata must map text to text; write the file again")
    if len(header) > MAX_TENSORS:
        raise _damaged(f"{source}: {len(header)} tensors; at most {MAX_TENSORS} are allowed")
    entries = [_Entry(name, fields, source) for name, fields in header.items()]
    _check_tiling(entries, len(data) - start, source)
    if (checksum := metadata.pop(CHECKSUM, None)) is not None:
        _check_content(data, start, checksum, source)
    tensors = {e.name: np.ndarray(e.shape, e.dtype, buffer=data, offset=start + e.begin) for e in entries}
    return tensors, metadata


def parse_json(text: str, source: str, *, floats: bool = False):
    """Value of the JSON `text`. Refuses what parsers disagree on: duplicate keys, NaN, lone surrogates
    and huge numbers. Numbers must be whole and >= 0 unless `floats`. Raises InputError
    ``file-damaged``.
    """

    def number(digits: str) -> int:
        if len(digits) > MAX_DIGITS or (digits.startswith("-") and not floats):
            raise _damaged(f"{source}: number {digits[:30]} is out of range")
        return int(digits)

    def no_number(digits: str):
        raise _damaged(f"{source}: {digits[:30]} is not a whole number >= 0")

    def members(pairs: list) -> dict:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise _damaged(f"{source}: a key occurs twice")
        return result

    try:
        value = json.loads(
            text,
            object_pairs_hook=members,
            parse_int=number,
            parse_float=float if floats else no_number,
            parse_constant=no_number,
        )
        # Python accepts "\ud800" in JSON, but other programs do not.
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise _damaged(f"{source}: nested too deeply") from error
    except UnicodeEncodeError as error:
        raise _damaged(f"{source}: half a surrogate pair is not text") from error
    except json.JSONDecodeError as error:
        raise _damaged(f"{source}: not JSON ({error})") from error
    return value


def _entry_of(checksum: str) -> bytes:
    """The metadata entry as written. It occurs nowhere else in the header, because quotes are escaped."""
    return f'"{CHECKSUM}":"{checksum}"'.encode()


def _checksum(*contents) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    return digest.hexdigest()


def _check_content(data, start: int, checksum: str, source: str) -> None:
    head = bytes(data[:start]).replace(_entry_of(checksum), _entry_of(NO_CHECKSUM))
    with memoryview(data) as view, view[start:] as rest:
        if _checksum(head, rest) != checksum:
            raise _damaged(
                f"{source}: its {len(data)} bytes do not match its sha256 {checksum[:12]!r};"
                f" copy the file again; if another program saved it, let that program leave out {CHECKSUM}",
            )


def _read_header(data, source: str) -> tuple[dict, int]:
    """Header object and the offset of the first tensor byte."""
    if len(data) < 8:
        raise _damaged(f"{source}: {len(data)} bytes are not a model file; it has at least 10")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER:
        raise _damaged(
            f"{source}: header of {length} bytes, at most {MAX_HEADER} are allowed; is it a model file?",
        )
    if length > len(data) - 8:
        raise _damaged(
            f"{source}: the header needs {length} bytes and {len(data) - 8} are left; copy the file again",
        )
    try:
        text = bytes(data[8 : 8 + length]).decode()
    except UnicodeDecodeError as error:
        raise _damaged(f"{source}: the header is not UTF-8 text") from error
    if not text.startswith("{"):
        raise _damaged(f"{source}: the header is not a JSON object; is it a model file?")
    return parse_json(text, source), 8 + length


class _Entry:
    """One checked entry of the header: name, dtype, shape and the bytes [begin, end) of the data."""

    def __init__(self, name: str, fields, source: str):
        where = f"{source}: tensor {name[:80]!r}"
        if not isinstance(fields, dict) or fields.keys() != FIELDS:
            raise _damaged(f"{where} must have exactly dtype, shape and data_offsets")
        if not isinstance(fields["dtype"], str) or fields["dtype"] not in DTYPES:
            raise _damaged(f"{where} must be one of {', '.join(DTYPES)}")
        self.name, self.dtype = name, DTYPES[fields["dtype"]]
        self.shape, offsets = fields["shape"], fields["data_offsets"]
        if not _whole_numbers(self.shape) or len(self.shape) > MAX_RANK:
            raise _damaged(f"{where}: the shape must be at most {MAX_RANK} whole numbers >= 0")
        # Count zero dimensions as one: another reader may multiply in another order and overflow.
        if math.prod(max(size, 1) for size in self.shape) > MAX_ELEMENTS:
            raise _damaged(f"{where}: more than {MAX_ELEMENTS} elements")
        if not _whole_numbers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            raise _damaged(f"{where}: data_offsets must be two numbers, begin <= end")
        self.begin, self.end = offsets
        need = math.prod(self.shape) * self.dtype.itemsize
        if self.end - self.begin != need:
            raise _damaged(f"{where} needs {need} bytes and has {self.end - self.begin}")
        if self.begin % self.dtype.itemsize:
            raise _damaged(f"{where} starts at byte {self.begin}, off its item size")


def _whole_numbers(value) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _check_tiling(entries: list[_Entry], available: int, source: str) -> None:
    """Raise InputError unless the tensors cover the `available` bytes without hole, overlap or rest."""
    reached = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != reached:
            raise _damaged(
                f"{source}: tensor {entry.name[:80]!r} starts at byte {entry.begin} instead of {reached}",
            )
        reached = entry.end
    if reached > available:
        raise _damaged(
            f"{source}: the tensors need {reached} bytes and {available} are there; copy the file again",
        )
    if reached < available:
        raise _damaged(f"{source}: {available - reached} bytes follow the last tensor")
