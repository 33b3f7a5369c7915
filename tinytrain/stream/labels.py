"""What is said of images: typed words, and lines ``image,class`` that another program writes to a file.

Both have one grammar, see `meaning`. A file is what it says now, however it was saved: all of it is looked at
when its content has changed. Each image has a history, the words of all of its lines so far. An image whose
history was given before has nothing new; the mark that comes with a label carries that over restarts.
"""

import csv
import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tinytrain.base.console import suggestion
from tinytrain.base.errors import InputError, one_line
from tinytrain.base.files import open_without_waiting
from tinytrain.store.kept import digest_of

MAX_LINE = 2**16
BLOCK = 2**20
BOM = b"\xef\xbb\xbf"
NEW, CLASS, COMMENT = "+", "=", b"#"
UNDO, HELP, QUIT = "undo", "help", "quit"
WORDS = {"u": UNDO, "undo": UNDO, "?": HELP, "help": HELP, "q": QUIT, "quit": QUIT}


@dataclass(frozen=True)
class Meaning:
    """Class `name`, `new` or not; or a `command`: UNDO, HELP or QUIT."""

    name: str = ""
    new: bool = False
    command: str = ""


def meaning(text: str, names: tuple[str, ...]) -> Meaning:
    """What a word means: the name of a class, one of WORDS, the number of a class, or `NEW` and a name.

    The name of a class is always that class. Behind `CLASS` it is nothing else. Numbers from 1 mean classes
    unless a class is called by a number. Raises InputError ``unknown-class`` for anything else.
    """
    text = unicodedata.normalize("NFC", text)
    if text in names:
        return Meaning(text)
    if text in WORDS:
        return Meaning(command=WORDS[text])
    numbers = not any(name.isdecimal() for name in names)
    if numbers and text.isdecimal() and 1 <= int(text[:9]) <= len(names):
        return Meaning(names[int(text[:9]) - 1])
    name = text[1:].strip() if text.startswith((NEW, CLASS)) else text
    if name in names or (name and text.startswith(NEW)):
        return Meaning(name, new=name not in names)
    shown = one_line(name, 100)
    near = next((n for n in names if name and n.casefold().startswith(name.casefold())), None)
    hint = f", did you mean {one_line(near, 100)}?" if near else suggestion(name, names)
    remedy = f"Type it in full, or {NEW}{shown} for a new class" if hint else f"{NEW}{shown} is a new class"
    raise InputError("unknown-class", f"no class {shown!r}{hint or ';'} {remedy}")


@dataclass(frozen=True)
class Label:
    """What a label file says of image `key`: `name` is for `meaning`, `mark` stands for its history."""

    key: str
    name: str
    mark: str


class LabelFile:
    """The file at `path`, which need not be there yet; `marks` are the histories that were given before."""

    def __init__(self, path: str, marks: Mapping[str, str] | None = None):
        self.path = path
        self._given = dict(marks or {})
        self._named: set[bytes] = set()  # digests of lines that are none and were named
        self._begin()

    def _begin(self) -> None:
        """Nothing of the file is known; afterwards `_end` bytes, which have the digest `_read`."""
        self._end, self._read, self._histories = 0, hashlib.sha256(), {}

    def read(self, ended: bool = False) -> Iterator[Label | InputError]:
        """What is new: of each image the labels behind the history that was given, all if it has another one.

        An error for each line that is none. The last line counts without its line break only if the file has
        `ended`.
        """
        try:
            with open(self.path, "rb", opener=open_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise InputError("labels-unreadable", f"{self.path} is no regular file; give one")
                yield from self._labels(file, ended)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError("labels-unreadable", f"{self.path}: {error.strerror}; check the file") from error

    def _labels(self, file, ended: bool) -> Iterator[Label | InputError]:
        if not self._goes_on(file):
            self._begin()
            file.seek(0)
        new: dict[str, list[Label]] = {}
        for line in self._lines(file, ended):
            label = self._parsed(line)
            if isinstance(label, InputError):
                if digest_of(line) not in self._named:
                    self._named.add(digest_of(line))
                    yield label
                continue
            key, _, history = label.mark.partition(":")
            if self._given.get(key) == history:
                new.pop(key, None)
            else:
                new.setdefault(key, []).append(label)
        for key, labels in new.items():
            self._given[key] = labels[-1].mark.partition(":")[2]
            yield from labels

    def _goes_on(self, file) -> bool:
        """Whether the file begins as it did; if so, it is read up to where that ended."""
        digest, left = hashlib.sha256(), self._end
        while left and (block := file.read(min(left, BLOCK))):
            digest.update(block)
            left -= len(block)
        return digest.digest() == self._read.digest()

    def _lines(self, file, ended: bool) -> Iterator[bytes]:
        while line := file.readline(MAX_LINE):
            if not line.endswith(b"\n") and len(line) < MAX_LINE and not ended:
                return  # it is still being written
            first, self._end = not self._end, self._end + len(line)
            self._read.update(line)
            line = (line.removeprefix(BOM) if first else line).strip()
            if line and not line.startswith(COMMENT):
                yield line

    def _parsed(self, line: bytes) -> Label | InputError:
        text = line.decode(errors="surrogateescape")
        try:
            fields = [field.strip() for field in next(csv.reader([text], strict=True))]
        except csv.Error:
            fields = []
        if len(fields) != 2 or not all(fields):
            shown = one_line(text, 100)
            return InputError(
                "labels-unreadable", f"{self.path}: {shown!r} is not a line 'image,class'; it is left out"
            )
        image, word = (field.encode(errors="surrogateescape") for field in fields)
        key = digest_of(image)[:12]
        history = digest_of(self._histories.get(key, "").encode() + word)[:8]
        self._histories[key] = history
        return Label(*fields, f"{key}:{history}")
