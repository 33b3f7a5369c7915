"""Progress on stderr: one line that is rewritten on a terminal, a line now and then elsewhere."""

import shutil
import sys
import time
from collections.abc import Callable

from tinytrain.base.events import Progress, Tell
from tinytrain.base.notices import NOTICES

# (stage, items done, items in all, loss of a step or None)
OnProgress = Callable[[str, int, int, float | None], None]
INTERVAL = 0.1  # seconds between two updates of the line on a terminal
# Without a terminal: the least seconds between two lines, and between them as a fraction of the time so far.
# So ten hours give some hundred lines.
LINE_SECONDS, LINE_FRACTION = 10.0, 0.1


def silent(stage: str, done: int, total: int, loss: float | None) -> None:
    """The progress callback that shows nothing."""


def told(tell: Tell) -> OnProgress:
    """The progress callback that tells each call as an event."""
    return lambda *facts: tell(Progress(*facts))


def told_compiling(tell: Tell) -> Callable[[tuple[int, int] | None], None]:
    """The same of the kernels that are compiled, for `kernels.compile_cache.watch`."""
    return lambda kernel: kernel and tell(Progress("compiling kernels", *kernel))


class _Stream:
    """A stream that shows one rewritten line if it is a terminal, and whole lines now and then if not."""

    def __init__(self, stream=None):
        self.stream = stream or sys.stderr
        self.quiet, self.terminal = NOTICES.quiet, self.stream.isatty()
        self._start = self._last = time.monotonic()
        self._width = 0  # letters that the terminal shows of us

    def is_due(self) -> bool:
        """Whether enough time has passed since the last line."""
        now = time.monotonic()
        wait = max(LINE_SECONDS, LINE_FRACTION * (now - self._start))
        return not self.quiet and now - self._last >= (INTERVAL if self.terminal else wait)

    def show(self, line: str) -> None:
        if self.quiet:
            return
        self._last = time.monotonic()
        if self.terminal:
            self._rewrite(line)
        else:
            print(f"tinytrain: {line}", file=self.stream, flush=True)

    def clear(self) -> None:
        """Erase the line of the terminal, so that other text can be printed."""
        if self.terminal and self._width:
            self._rewrite("")

    def _rewrite(self, line: str) -> None:
        line = line[: shutil.get_terminal_size().columns - 1]
        self.stream.write("\r" + line.ljust(self._width) + ("\r" if not line else ""))
        self.stream.flush()
        self._width = len(line)


class ProgressLine:
    """An `OnProgress` that shows stages on `stream`, with the remaining time.

    A context manager: on a terminal the line is erased on exit. Silent while a command with ``--quiet`` runs.
    It has no colour, so NO_COLOR needs no handling.
    """

    def __init__(self, stream=None):
        self._stream = _Stream(stream)
        self.note = ""  # shown after the loss, whatever the stage
        self._stage, self._start, self._first = "", 0.0, 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *exception) -> None:
        self._stream.clear()

    def __call__(self, stage: str, done: int, total: int, loss: float | None) -> None:
        if stage != self._stage:
            # The first item also contains the preparation of its stage, so the remaining time counts from it.
            self._stage, self._start, self._first = stage, time.monotonic(), done
        last_on_terminal = self._stream.terminal and done >= total
        if self._stream.is_due() or last_on_terminal:
            self._stream.show(self._line(Progress(stage, done, total, loss)))

    def clear(self) -> None:
        """Erase the line, so that other text can be printed; the next call shows it again."""
        self._stream.clear()

    def _line(self, event: Progress) -> str:
        line = event.words()
        if self.note:
            line += f"  {self.note}"
        if self._first < event.done < event.total:
            each = (time.monotonic() - self._start) / (event.done - self._first)
            seconds = each * (event.total - event.done)
            line += f"  {seconds:.0f} s left"
        return line


class CompilingLine:
    """Says at once that kernels are being compiled, then how many, on `stream`; nothing if none is.

    To be given to `kernels.compile_cache.watch`; a context manager.
    """

    def __init__(self, stream=None):
        self._given, self._stream = stream, None
        self._start = self._end = 0.0
        self._number = 0

    def __enter__(self) -> "CompilingLine":
        return self

    def __exit__(self, *exception) -> None:
        if self._stream is None:
            return
        self._stream.clear()
        if not self._stream.terminal:
            kernels = f"{self._number} kernel{'' if self._number == 1 else 's'}"
            self._stream.show(f"compiled {kernels} in {self._end - self._start:.0f} s")

    def __call__(self, kernel: tuple[int, int] | None) -> None:
        """`kernel`: its number, and how many there are at most; None when it is compiled."""
        if kernel is None:
            self._end = time.monotonic()
            if self._stream:
                self._stream.clear()
            return
        first = self._stream is None
        if first:
            self._start, self._stream = time.monotonic(), _Stream(self._given)
        self._number = kernel[0]
        if first or self._stream.terminal or self._stream.is_due():
            line = f"compiling kernels {kernel[0]} of at most {kernel[1]}"
            line += " (each only once on a machine)"
            # Another progress line may be on the terminal: cover it.
            self._stream.show(
                line.ljust(shutil.get_terminal_size().columns) if self._stream.terminal else line
            )
