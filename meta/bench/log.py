"""The log of a comparison: one JSON line per finished run, only ever appended to."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.files import open_without_waiting, read_bytes
from tinytrain.base.schema import WrongError
from tinytrain.base.units import format_bytes
from tinytrain.meta.bench.record import checked
from tinytrain.meta.run_log import MAX_BYTES, JsonLines, whole_lines

KEY = (
    "pack", "episode", "seed", "label", "policy", "rate_scale", "budget", "macs_share", "backbone_digest",
    "sampler", "code",
)  # fmt: skip


def key_of(record: dict, any_code: bool = False) -> tuple:
    """What tells runs apart; with `any_code` runs of different code are the same run."""
    return tuple(record[name] for name in KEY if name != "code" or not any_code)


def read_log(path: str | os.PathLike) -> list[dict]:
    """What is reported of all records, also of a pipe, or of a file compressed by xz, named ``.xz``.

    A last line that a kill tore off is left out; any other damage raises InputError.
    """
    data = _from_pipe(path) if Path(path).is_fifo() else read_bytes(path, MAX_BYTES, least=0)
    return list(_records(path, whole_lines(_unpacked(path, data) if _packed(path) else data)))


def _from_pipe(path) -> bytes:
    """What a pipe such as ``<(xzcat LOG)`` gives until it ends; one that nobody writes to has ended."""
    with open(path, "rb", opener=open_without_waiting) as file:
        os.set_blocking(file.fileno(), True)
        data = file.read(MAX_BYTES + 1)
    if not data:
        raise InputError("file-empty", f"{path} gave 0 bytes; start what writes to it first")
    if len(data) > MAX_BYTES:
        most = format_bytes(MAX_BYTES)
        raise InputError("file-too-large", f"{path} gave more than the {most} of a log; take another log")
    return data


def _packed(path) -> bool:
    return Path(path).suffix == ".xz"


def _unpacked(path, data: bytes) -> bytes:
    """What one whole stream of xz holds; `lzma.decompress` drops what follows it, damaged or not.

    A few kB of it can stand for any size, and ask for any memory.
    """
    import lzma  # not every Python has it

    stream = lzma.LZMADecompressor(memlimit=MAX_BYTES)
    try:
        lines = stream.decompress(data, MAX_BYTES)
        if len(lines) == MAX_BYTES:
            raise lzma.LZMAError(f"it holds {MAX_BYTES:,} bytes or more")
        if not stream.eof or stream.unused_data:
            raise lzma.LZMAError("not one whole stream")
    except lzma.LZMAError as error:
        raise InputError(
            "log-broken", f"{path}: cannot be decompressed ({error}); take another log"
        ) from error
    return lines


def _records(path, lines: list[bytes]) -> Iterator[dict]:
    for number, line in enumerate(lines, 1):
        try:
            yield checked(json.loads(line.decode()))
        except (ValueError, RecursionError, WrongError) as error:
            raise InputError(
                "log-broken",
                f"{path}: line {number} is no record of ours ({error}); remove it or take another log",
            ) from None


class Log:
    """The log at `path`, read and appended to; see `opened`."""

    def __init__(self, file: JsonLines, any_code: bool):
        self.path, self._file, self._any_code = file.path, file, any_code
        self.records = list(_records(file.path, file.lines))
        self._keys = {key_of(record, any_code) for record in self.records}

    def holds(self, identity: dict) -> bool:
        return key_of(identity, self._any_code) in self._keys

    def append(self, records: Iterable[dict]) -> None:
        """Add records, on disk before this returns. Raises StorageError."""
        records = list(records)
        self._file.append(records)
        self.records += records
        self._keys |= {key_of(record, self._any_code) for record in records}


@contextmanager
def opened(path: str | os.PathLike, any_code: bool = False) -> Iterator[Log]:
    """The log for one run at a time; the first record takes the place of a torn last line.

    Raises StorageError ``log-in-use`` or ``write-failed``, and InputError for a compressed file or no log.
    """
    if _packed(path):
        raise InputError(
            "log-packed", f"{path}: nothing can be added to a compressed log; unpack it first: xz -dk {path}"
        )
    busy = StorageError("log-in-use", f"another run is writing {path}; let it end or take another log")
    with JsonLines(path, busy) as file:
        yield Log(file, any_code)
