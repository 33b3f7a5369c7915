"""One line on a terminal that says what is going on and how long it will take; silent anywhere else."""

import shutil
import sys
import time
from collections.abc import Callable

# (stage, items done, items in all, loss of a step or None)
Progress = Callable[[str, int, int, float | None], None]
INTERVAL = 0.1  # seconds between two looks of the line


def silent(stage: str, done: int, total: int, loss: float | None) -> None:
    """The progress callback that shows nothing."""


class ProgressLine:
    """A `Progress` that rewrites one line of `stream`.

    Used in a with statement; the line is gone afterwards. It is plain text: no colour, so there is
    nothing that NO_COLOR would have to switch off.
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
            # The first item of a stage also pays for what comes before it; the ETA counts from there.
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
        """Take the line away, so that something else can be printed; the next call brings it back."""
        self._write("")

    def _write(self, line: str) -> None:
        if not self.shown:
            return
        line = line[: shutil.get_terminal_size().columns - 1]
        self.stream.write("\r" + line.ljust(self._width) + ("\r" if not line else ""))
        self.stream.flush()
        self._width = len(line)
