"""The log of a contribution analysis: JSON lines, one per measured part and episode, to go on from."""

import fcntl
import json
import os
from pathlib import Path

from tinytrain.atomic import write_failed
from tinytrain.errors import InputError, StorageError


class SearchLog:
    """Gains by (name of the part, episode). `identity` says what they were measured on: its first line.

    Used in a with statement; nobody else can write the file meanwhile. A line that a kill cut off is dropped.
    Raises InputError ``log-mismatch`` for the log of another analysis and ``log-broken`` for another file,
    StorageError ``run-in-use`` and ``write-failed``.
    """

    def __init__(self, path: Path, identity: dict):
        self.path = path
        self.gains: dict[tuple[str, int], float] = {}
        try:
            self.file = open(path, "a+b")  # noqa: SIM115 (closed by __exit__)
        except OSError as error:
            raise write_failed(path, error) from error
        try:
            self._hold()
            self._read(identity)
        except BaseException:
            self.file.close()
            raise

    def __enter__(self) -> "SearchLog":
        return self

    def __exit__(self, *exception) -> None:
        self.file.close()

    def _hold(self) -> None:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(
                "run-in-use", f"another search is writing {self.path}; let it end or name another --log"
            ) from None

    def _read(self, identity: dict) -> None:
        self.file.seek(0)
        whole = [line for line in self.file.read().splitlines(keepends=True) if line.endswith(b"\n")]
        try:
            rows = [json.loads(line) for line in whole]
            self.gains = {(row["part"], row["episode"]): float(row["gain"]) for row in rows[1:]}
            differing = sorted(k for k in identity if rows and rows[0].get(k) != identity[k])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError("log-broken", f"{self.path} is no log of a search; move it away") from error
        if differing:
            raise InputError(
                "log-mismatch",
                f"{self.path} was measured with another {', '.join(differing)}; name another --log",
            )
        self.file.truncate(sum(len(line) for line in whole))
        if not rows:
            self._write(identity)

    def append(self, part: str, episode: int, gain: float) -> None:
        """Add a gain, on disk before this returns. Raises StorageError."""
        self._write({"part": part, "episode": episode, "gain": gain})
        self.gains[part, episode] = gain

    def _write(self, row: dict) -> None:
        try:
            self.file.write(json.dumps(row).encode() + b"\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise write_failed(self.path, error) from error
