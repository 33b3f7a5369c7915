"""Corrections that another program writes to a file: a line ``image,class`` for each, appended one by one.

A line is read when its line break is there. Each is given once, also over restarts: the mark that comes with
it names the place behind the line and the line itself, and reading goes on behind the last mark that was
learnt, if that line is still there. Otherwise it is another file, which is read from its beginning.
"""

import csv
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from tinytrain.base.errors import InputError, one_line

MAX_LINE = 2**16
BLOCK = 2**20


@dataclass(frozen=True)
class Label:
    """A line of a label file: image `key` is of class `name`. `mark` is the place behind the line."""

    key: str
    name: str
    mark: str


class LabelFile:
    """The lines of the file at `path` behind `mark`; the file need not be there yet."""

    def __init__(self, path: str, mark: str = ""):
        self.path = path
        self._end = self._after(mark)
        self._identity: tuple[int, int] | None = None

    def read(self) -> Iterator[Label | InputError]:
        """Labels of the lines that are new; an error for each line that is none."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                identity = status.st_dev, status.st_ino
                if status.st_size < self._end or self._identity not in (None, identity):
                    self._end = 0  # another file, or one that was begun again
                self._identity = identity
                file.seek(self._end)
                yield from self._lines(file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError("labels-unreadable", f"{self.path}: {error.strerror}; check the file") from error

    def _lines(self, file) -> Iterator[Label | InputError]:
        while line := file.readline(MAX_LINE):
            if not line.endswith(b"\n") and len(line) < MAX_LINE:
                return  # it is still being written
            self._end += len(line)
            if line.strip():
                yield self._parsed(line)

    def _parsed(self, line: bytes) -> Label | InputError:
        text = line.decode(errors="surrogateescape").rstrip("\r\n")
        try:
            fields = next(csv.reader([text], strict=True))
        except csv.Error:
            fields = []
        if len(fields) != 2 or not all(field.strip() for field in fields):
            shown = one_line(text, 100)
            return InputError(
                "label-line", f"{self.path}: {shown!r} is not a line 'image,class'; it is left out"
            )
        return Label(fields[0].strip(), fields[1].strip(), f"{self._end}:{_digest(line)}")

    def _after(self, mark: str) -> int:
        """The place behind the line of `mark`, 0 if that line is not in this file."""
        place, _, digest = mark.partition(":")
        if not place.isdecimal() or len(place) > 18:
            return 0
        end = int(place)
        try:
            with open(self.path, "rb") as file:
                start = max(0, end - MAX_LINE)
                file.seek(start)
                before = file.read(end - start)
        except OSError:
            return 0
        line = before[before.rfind(b"\n", 0, -1) + 1 :]
        return end if len(before) == end - start and _digest(line) == digest else 0


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]
