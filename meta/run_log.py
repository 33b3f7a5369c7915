"""Logs that a run can be stopped at any byte of: JSON lines, one writer at a time, only ever appended to."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tinytrain.base.errors import StorageError
from tinytrain.base.files import check_kind, read_bytes, write_failed
from tinytrain.base.locks import lock

MAX_BYTES = 2**27  # of a log; the largest one known holds 12 MB


def whole_lines(data: bytes) -> list[bytes]:
    """The lines of a log without the last one if a kill tore it off."""
    return data.split(b"\n")[:-1]


class JsonLines:
    """The log at `path`, made if there is none; `lines` are those that it held.

    Used in a with statement; nobody else can open it meanwhile. Nothing in the file changes before the first
    `append`. Raises StorageError ``write-failed``, or `busy` where another run has it, and InputError for one
    that is too large.
    """

    def __init__(self, path: str | os.PathLike, busy: StorageError):
        self.path = Path(path)
        check_kind(self.path)
        try:
            self._file = open(self.path, "a+b")  # noqa: SIM115 (closed by __exit__)
        except OSError as error:
            raise write_failed(self.path, error) from error
        if not lock(self._file.fileno()):
            self._file.close()
            raise busy
        try:
            self.lines = whole_lines(read_bytes(self.path, MAX_BYTES, least=0))
        except BaseException:
            self._file.close()
            raise
        self._size = sum(len(line) + 1 for line in self.lines)

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *exception) -> None:
        self._file.close()

    def append(self, rows: Iterable[dict]) -> None:
        """Add rows, on disk before this returns, in place of a torn last line. Raises StorageError."""
        data = b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows)
        try:
            self._file.truncate(self._size)
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise write_failed(self.path, error) from error
        self._size += len(data)
