"""The log of a contribution analysis: JSON lines, one per measured part and episode, to go on from."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tinytrain.base.errors import InputError, StorageError
from tinytrain.meta.run_log import JsonLines


class SearchLog:
    """Gains by (name of the part, episode), read and appended to; see `opened`."""

    def __init__(self, file: JsonLines, identity: dict):
        self._file = file
        try:
            rows = [json.loads(line) for line in file.lines]
            self.gains = {(row["part"], row["episode"]): float(row["gain"]) for row in rows[1:]}
            differing = sorted(k for k in identity if rows and rows[0].get(k) != identity[k])
        except (ValueError, ArithmeticError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError("log-broken", f"{file.path} is no log of a search; move it away") from error
        if differing:
            raise InputError(
                "log-mismatch",
                f"{file.path} was measured with another {', '.join(differing)}; name another --log",
            )
        if not rows:
            file.append([identity])

    def append(self, part: str, episode: int, gain: float) -> None:
        """Add a gain, on disk before this returns. Raises StorageError."""
        self._file.append([{"part": part, "episode": episode, "gain": gain}])
        self.gains[part, episode] = gain


@contextmanager
def opened(path: Path, identity: dict) -> Iterator[SearchLog]:
    """The log for one search at a time; its first line, `identity`, says what the gains were measured on.

    Raises InputError ``log-mismatch`` for the log of another analysis and ``log-broken`` for another file,
    StorageError ``run-in-use`` and ``write-failed``.
    """
    busy = StorageError("run-in-use", f"another search is writing {path}; let it end or name another --log")
    with JsonLines(path, busy) as file:
        yield SearchLog(file, identity)
