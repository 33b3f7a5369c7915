"""Rows of numbers as they come: from a serial device, from standard input, or from a CSV file that grows.

They are cut into windows of some seconds, each of which is looked at as a CSV file with the header of the
stream, if that has one.
"""

import os
import re
import stat
import termios
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from tinytrain.base.errors import InputError, UsageError, one_line
from tinytrain.base.events import Note
from tinytrain.episode.motion_file import (
    COMMENTS,
    LEAST_ROWS,
    MOST_HEADERS,
    MOST_LINE,
    MOST_ROWS,
    Recording,
    Splitter,
    decoded,
    is_number,
    recording,
)
from tinytrain.network.input_spec import InputSpec
from tinytrain.stream.arriving import WAIT_SECONDS, GoneError, blocks, returning
from tinytrain.stream.sources import Frame

STDIN = "-"
FIRST = 64  # rows that tell the rate; as many count as a second if neither they nor the network know one
SECONDS = 4.0  # of a window, or more, so that it has FIRST rows
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
Arriving = Iterable[bytes | Note | None]


def arriving(source: str, once: bool = False, wait: Callable[[float], object] = time.sleep) -> Arriving:
    """What comes from STDIN or the device or file `source`, which with `once` is read to its end."""
    if source == STDIN:
        return blocks(0)
    if once:
        return blocks(os.open(source, FLAGS))
    settings: list = []
    return returning(lambda: _opened(source, settings, wait), one_line(source, 200), "rows", wait)


def _opened(path: str, settings: list, wait: Callable[[float], object]) -> Iterator[bytes | None]:
    """What comes until the device goes, or another file has the name. Raises GoneError.

    `settings` are those of a serial device when it was opened first: one that was unplugged has lost them.
    """
    try:
        descriptor = os.open(path, FLAGS)
    except OSError as error:
        raise GoneError(error.strerror) from error
    opened = os.fstat(descriptor)

    def is_over() -> bool:
        if not stat.S_ISREG(opened.st_mode):
            raise GoneError("it has ended")
        wait(WAIT_SECONDS)
        now = os.stat(path)
        if now.st_ino != opened.st_ino or now.st_size < os.lseek(descriptor, 0, os.SEEK_CUR):
            raise GoneError("another file has its name")
        return False

    try:
        if os.isatty(descriptor):
            settings[:] = settings or termios.tcgetattr(descriptor)
            termios.tcsetattr(descriptor, termios.TCSANOW, settings)
        yield from blocks(descriptor, is_over)
    except (OSError, termios.error) as error:
        raise GoneError(error.args[1]) from error
    finally:
        os.close(descriptor)


def frames(
    found: Arriving, spec: InputSpec, seconds: float | None = None, every: float | None = None
) -> Iterator[Frame | Note | None]:
    """A window of `seconds` `every` so many, or each half window; their names are the seconds to their ends.

    Notes say what is skipped, once for each reason. Raises InputError ``image-unreadable`` if the rows are
    none for `spec`, UsageError if a window has too few or too many.
    """
    windows, rest = Windows(spec, seconds, every), b""
    for block in found:
        if not isinstance(block, bytes):
            yield block
            if block is not None:  # what comes next is no part of what came before
                windows.begin()
                rest = b""
            continue
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > MOST_LINE:
            lines, rest = [*lines, rest], b""
        for line in lines:
            yield from windows.add(line)
        yield None
    yield from windows.add(rest)
    if not windows.given:
        yield Note("the rows have ended before a window of them; --seconds says how long one is")


class Windows:
    """Cuts lines into windows; `given`: there was one."""

    def __init__(self, spec: InputSpec, seconds: float | None = None, every: float | None = None):
        self.axes, self.rate = (dict(spec.parameters)[name] for name in ("axes", "rate"))
        self.seconds, self.every, self.given = seconds, every, False
        self._said: set[str] = set()
        self._end = 0.0  # seconds since the beginning
        self.begin()

    def begin(self) -> None:
        """Forget the rows and their form, as those that follow are others."""
        self._header, self._before, self._tried, self._others = [], "", 0, 0
        self._numbers: list[bool | None] = []  # of the cells of a row; empty before there is one
        self._rows: deque[str] = deque(maxlen=FIRST)
        self._hop, self._left, self._step = 0, 0, 0.0  # a hop of 0 is not known yet, nor is the length

    def add(self, line: bytes) -> Iterator[Frame | Note]:
        """The window that ends with this `line`, if one does, or what is skipped."""
        text = decoded(line).replace('"', "").strip()
        if not text or text.startswith(COMMENTS):
            return
        if len(text) > MOST_LINE:
            yield from self._skipped("a row", f"has more than {MOST_LINE} letters")
        elif not self._numbers:
            yield from self._begun(text)
        elif text in self._header:  # of another recording
            self._rows.clear()
        elif why := self._wrong(text):
            yield from self._skipped("a row", why)
            if self._others > MOST_HEADERS:  # the first ones were none
                self.begin()
        else:
            self._others = 0
            yield from self._added(text)

    def _begun(self, text: str) -> Iterator[Frame | Note]:
        """The first rows are two of one form, one after another, as the beginning of a stream may be cut."""
        split, before, self._before = Splitter(text), self._before, text
        numbers, self._tried = [is_number(cell) for cell in split(text)], self._tried + 1
        if not any(numbers):
            self._header, self._before = [*self._header, text][-MOST_HEADERS:], ""
        elif 2 * numbers.count(True) >= len(numbers) and numbers == [is_number(c) for c in split(before)]:
            self._split, self._numbers = split, numbers
            self._header = [head for head in self._header if len(split(head)) == len(numbers)]
            for row in (before, text):
                yield from self._added(row)
        if self._tried > MOST_HEADERS:
            why = "has no rows of numbers (a serial device needs its speed, which stty sets)"
            yield from self._skipped("the beginning", why)

    def _wrong(self, text: str) -> str:
        """Why this is no row like the first ones; "" if it is one."""
        found = [is_number(cell) for cell in self._split(text)]
        if len(found) != len(self._numbers):
            self._others += 2 * found.count(True) >= len(found)
            return f"does not have {len(self._numbers)} values, as those before it"
        lost = {now for now, first in zip(found, self._numbers, strict=True) if first and not now}
        return "has text among its numbers" if False in lost else "lacks a value" if lost else ""

    def _skipped(self, what: str, why: str) -> Iterator[Note]:
        kind = re.sub(r"\d+", "", why)
        if kind not in self._said:
            self._said.add(kind)
            yield Note(f"{what} is skipped, as it {why}; others like it are not mentioned")

    def _added(self, row: str) -> Iterator[Frame | Note]:
        self._rows.append(row)
        self._end, self._left = self._end + self._step, self._left - 1
        if len(self._rows) < self._rows.maxlen or self._left > 0:
            return
        try:
            found = recording(self._content(), self.rate if self._hop else 0)
        except InputError as error:
            self._rows.clear()
            yield from self._skipped("a window", error.message)
            return
        if self._hop:
            self._left, self.given = self._hop, True
            yield Frame(f"{self._end:.2f} s", self._content())
        else:
            self._measure(found)

    def _measure(self, first: Recording) -> None:
        """Settle by the `first` rows how many a window has."""
        if (axes := first.values.shape[1]) != self.axes:
            text = f"the rows have {axes} columns of motion; the network is for {self.axes}"
            raise InputError("image-unreadable", text)
        rate = first.rate or self.rate or FIRST
        slowest = min(rate, self.rate or rate)
        seconds = self.seconds or max(SECONDS, FIRST / slowest)
        if seconds * slowest < LEAST_ROWS or seconds * rate > MOST_ROWS:
            text = f"--seconds {seconds:g} are {seconds * slowest:.4g} rows at {slowest:.4g} a second"
            raise UsageError("usage", f"{text}; a window has {LEAST_ROWS} to {MOST_ROWS}")
        self._rows, self._step = deque(self._rows, round(seconds * rate)), 1 / rate
        self._hop = max(1, round((self.every or seconds / 2) * rate))
        self._end += FIRST / rate
        if not self._header and axes < len(self._numbers) - self._numbers.count(None):
            # The first rows tell a time or a number from an axis; later ones may not, as some are skipped.
            names = ["time" if first.rate else "index", *["x"] * (len(self._numbers) - 1)]
            self._header = [(self._split.sign or " ").join(names)]

    def _content(self) -> bytes:
        return "\n".join([*self._header, *self._rows, ""]).encode()
