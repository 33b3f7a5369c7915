"""A progress line on a terminal with the remaining time; silent if the stream is not a terminal."""

import shutil
import sys
import time
from collections.abc import Callable

# (stage, items done, items in all, loss of a step or None)
Progress = Callable[[str, int, int, float | None], None]
INTERVAL = 0.1  # seconds between two updates of the line


def silent(stage: str, done: int, total: int, loss: float | None) -> None:
    """The progress callback that shows nothing."""


class ProgressLine:
    """A `Progress` that rewrites one line of `stream`.

    A context manager: the line is erased on exit. It has no colour, so NO_COLOR needs no handling.
    """

    def __init__(self, stream=None):
        self.stream = stream or sys.stderr
        self.shown = self.stream.isatty()
        self.note = ""  # shown after the loss, whatever the stage
        self._stage, self._start, self._last, self._width = "", 0.0, 0.0, 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *exception) -> None:
        self._write("")

    def __call__(self, stage: str, done: int, total: int, loss: float | None) -> None:
        now = time.monotonic()
        if stage != self._stage:
            # The first item also contains the preparation of its stage, so the remaining time counts from it.
            self._stage, self._start, self._first = stage, now, done
        if not self.shown or (now - self._last < INTERVAL and done < total):
            return
        self._last = now
        line = f"{stage} {done}/{total}"
        if loss is not None:
            line += f"  loss {loss:.3f}"
        if self.note:
            line += f"  {self.note}"
        if self._first < done < total:
            line += f"  {(now - self._start) / (done - self._first) * (total - done):.0f} s left"
        self._write(line)

    def clear(self) -> None:
        """Erase the line, so that other text can be printed; the next call shows it again."""
        self._write("")

    def _write(self, line: str) -> None:
        if not self.shown:
            return
        line = line[: shutil.get_terminal_size().columns - 1]
        self.stream.write("\r" + line.ljust(self._width) + ("\r" if not line else ""))
        self.stream.flush()
        self._width = len(line)
