"""Logs that a run can be stopped at any byte of: JSON lines, one writer at a time, only ever appended to."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.files import check_kind, open_without_waiting, read_bytes, write_failed
from tinytrain.base.locks import lock
from tinytrain.base.schema import WrongError
from tinytrain.base.units import format_bytes

MAX_BYTES = 2**27  # of a log; the largest one known holds 12 MB
Check = Callable[[object], dict]  # a row from the content of a line; raises one of NO_ROW
NO_ROW = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError, WrongError)


def any_row(value) -> dict:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def read_log(path: str | os.PathLike, check: Check = any_row) -> list[dict]:
    """The rows of a log, also of a pipe, or of a file compressed by xz, named ``.xz``.

    A last line that a kill tore off is left out; any other damage raises InputError.
    """
    data = _from_pipe(path) if Path(path).is_fifo() else read_bytes(path, MAX_BYTES, least=0)
    return _rows(path, _unpacked(path, data) if _packed(path) else data, check)


def _from_pipe(path) -> bytes:
    """What a pipe such as ``<(xzcat LOG)`` gives until it ends; one that nobody writes to has ended."""
    with open(path, "rb", opener=open_without_waiting) as file:
        os.set_blocking(file.fileno(), True)
        data = file.read(MAX_BYTES + 1)
    if not data:
        raise InputError("file-damaged", f"{path} gave 0 bytes; start what writes to it first")
    if len(data) > MAX_BYTES:
        most = format_bytes(MAX_BYTES)
        raise InputError("file-kind", f"{path} gave more than the {most} of a log; take another log")
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
            "file-damaged", f"{path}: cannot be decompressed ({error}); take another log"
        ) from error
    return lines


def _rows(path, data: bytes, check: Check) -> list[dict]:
    found = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            found.append(check(json.loads(line.decode())))
        except NO_ROW as error:
            raise InputError(
                "file-damaged",
                f"{path}: line {number} is no record of ours ({error}); remove it or take another log",
            ) from None
    return found


class Log:
    """The log at `path`; `rows` are those that it holds, without a torn last one.

    Of a log that is known to have had `size` bytes, what follows these is dropped, too. Nothing in the file
    changes before the first `append`. Raises StorageError for what is no file, and InputError.
    """

    def __init__(self, path: str | os.PathLike, check: Check = any_row, size: int | None = None):
        self.path = Path(path)
        check_kind(self.path)
        # What its writer knows of is never too large: it wrote that itself.
        data = read_bytes(path, MAX_BYTES + (size or 0), least=0) if self.path.exists() else b""
        self.rows = _rows(path, data[:size], check)
        self.size = data[:size].rfind(b"\n") + 1

    def append(self, rows: Iterable[dict]) -> None:
        """Add rows, on disk before this returns, in place of what is dropped. Raises StorageError."""
        rows = list(rows)
        data = b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows)
        try:
            with open(self.path, "ab") as file:
                file.truncate(self.size)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_failed(self.path, error) from error
        self.rows += rows
        self.size += len(data)


@contextmanager
def opened(path: str | os.PathLike, check: Check = any_row) -> Iterator[Log]:
    """The log at `path`, made if there is none, for one run at a time.

    Raises StorageError ``store-busy`` or ``write-failed``, and InputError for a compressed file or no log.
    """
    if _packed(path):
        raise InputError(
            "file-kind", f"{path}: nothing can be added to a compressed log; unpack it first: xz -dk {path}"
        )
    check_kind(Path(path))
    try:
        file = open(path, "ab")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise write_failed(path, error) from error
    with file:
        if not lock(file.fileno()):
            raise StorageError("store-busy", f"another run is writing {path}; let it end or take another log")
        yield Log(path, check)
