"""Where images come from: a folder that a camera writes to, names on standard input, frames of a command.

Every source is an iterator that gives a `Frame`, or None where there is nothing new. It ends when no image
can come any more.
"""

import contextlib
import hashlib
import heapq
import os
import select
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.events import Note
from tinytrain.base.files import open_without_waiting
from tinytrain.episode.kind import MOST_BYTES, Kind, UnknownEndError
from tinytrain.stream.seen import UNREAD, Seen

MOST = 1000  # names that a folder hands out after one look at it
SETTLED = 2.0  # seconds: no clock of a file system is coarser
PATIENCE = 30.0  # seconds without a change from which a file that is not whole counts as broken
MAX_PATH = 2**16
BLOCK = 2**16
WAIT_SECONDS = 0.2  # of a pipe, for the next name


@dataclass(frozen=True, eq=False)
class Frame:
    """An image to look at: its `name`, and its `content`, a path or what else `Predictor` takes.

    If the file at that path was read, these are its `data`, and `digest` is that of `digest_of`.
    """

    name: str
    content: object
    data: bytes | None = None
    digest: str = ""


class _File(NamedTuple):
    """A file as a look found it: `name` and `facts` (size and time of change) are hashes."""

    name: int
    facts: int
    changed: int  # ns
    path: str


class FolderSource:
    """New images of a folder and the folders inside it, or files of another `kind`, the oldest first.

    An image is new if the file of its path did not have its content before. It is given when it is whole; one
    that is cut off when it has not changed for PATIENCE seconds, and what is none, or does not say where it
    ends, for SETTLED seconds. Files that vanish are passed over, and are not new when they come back; so are
    hidden ones, links to folders and the folder `without`. A Note says what cannot be listed. Memory: see
    `Seen`, and 1,000 names.

    ``wait(seconds)`` is called where nothing is new; with `once`, that is the end, and what is older than
    PATIENCE seconds is not waited for. A look takes time in a large folder: there are nine times as many
    seconds between two of them. `clock` gives seconds that never go back.
    """

    def __init__(
        self,
        path: str,
        kind: Kind,
        every: float = 1.0,
        once: bool = False,
        wait: Callable[[float], object] = time.sleep,
        without: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.path, self.kind, self.every, self.once = path, kind, every, once
        self.wait, self.clock = wait, clock
        self._without = None if without is None else os.path.realpath(without)
        self._seen = Seen()
        self._unfinished: dict[int, tuple[int, float]] = {}  # name -> facts, and until when
        self._unlisted: dict[str, str] = {}  # folder -> why
        self._look_seconds = 0.0

    def skip_present(self) -> None:
        """Pass over every image that is in the folder now."""
        for file in self._files():
            self._seen.put(file.name, file.facts, UNREAD)

    def __iter__(self) -> Iterator[Frame | Note | None]:
        if not os.path.isdir(self.path):
            raise InputError("file-missing", f"{self.path} is no folder; check the name")
        while True:
            known = self._unlisted
            files = self._look()
            for folder in self._unlisted.keys() - known.keys():
                text = f"{one_line(folder, 200)} cannot be listed ({self._unlisted[folder]})"
                if self.once and folder == self.path:
                    raise InputError("file-missing", f"{text}; check its rights")
                yield Note(f"{text}; its {self.kind.plural} are not looked at until it can be")
            given = False
            for file in files:
                if (frame := self._examined(file)) is not None:
                    given = True
                    yield frame
            if given:
                continue
            if self.once and not self._unfinished:
                return
            yield None
            self.wait(
                max(min(self.every, SETTLED) if self._unfinished else self.every, 9 * self._look_seconds)
            )

    def _look(self) -> list[_File]:
        """The files whose facts are new, MOST of them at most and the oldest first."""
        start, names, found = self.clock(), array("Q"), []
        self._unlisted = {}
        before, self._unfinished = self._unfinished, {}
        for file in self._files():
            names.append(file.name)
            if self._seen.get(file.name)[0] == file.facts:
                continue
            if waits := before.get(file.name):
                self._unfinished[file.name] = waits
                if waits[0] == file.facts and self.clock() < waits[1] and not _is_fresh(file):
                    continue
            item = (-file.changed, file.path, file)
            (heapq.heappush if len(found) < MOST else heapq.heappushpop)(found, item)
        self._seen.look(names, complete=not self._unlisted)
        self._look_seconds = self.clock() - start
        return [file for *_, file in sorted(found, reverse=True)]

    def _examined(self, file: _File) -> Frame | None:
        """The image of a file, if it is whole, or will not become so, and has a new content."""
        known = self._seen.get(file.name)[1]
        data = end = None
        patience = PATIENCE
        try:
            data = _read(file.path)
            end = None if len(data) > MOST_BYTES else self.kind.whole_end(data)
        except FileNotFoundError:
            return None
        except UnknownEndError:
            patience = SETTLED
        except OSError:  # perhaps for a moment
            pass
        if end is None and self._is_waited_for(file, patience):
            return None
        self._unfinished.pop(file.name, None)
        content, digest = UNREAD, ""
        if data is not None:  # what grows behind an image makes no other image of it
            whole = hashlib.sha256(memoryview(data)[:end])
            content = int(whole.hexdigest()[:16], 16) or 1
            whole.update(memoryview(data)[len(data) if end is None else end :])
            digest = whole.hexdigest()[:16]
        self._seen.put(file.name, UNREAD if data and _is_fresh(file) else file.facts, content)
        if known == content != UNREAD:
            return None
        if not end:
            return Frame(file.path, file.path)  # a decoder says what it is
        # A name that is used again may have another image when this one is corrected.
        return Frame(file.path, data if known else file.path, data, digest)

    def _is_waited_for(self, file: _File, patience: float) -> bool:
        """Whether a file that is no whole image has changed in the last `patience` seconds."""
        age = abs(time.time_ns() - file.changed) / 1e9
        if age >= patience and (self.once or patience == SETTLED):
            return False
        facts, until = self._unfinished.get(file.name, (UNREAD, 0.0))
        if facts != file.facts:
            until = self.clock() + patience
            self._unfinished[file.name] = file.facts, until
        return self.clock() < until

    def _files(self) -> Iterator[_File]:
        """Every image that is there; what vanishes meanwhile is passed over."""
        folders = [self.path]
        while folders:
            folder = folders.pop()
            try:
                for entry in _visible(folder):
                    with contextlib.suppress(OSError):  # it has vanished since
                        if entry.is_dir(follow_symlinks=False):
                            if self._without is None or os.path.realpath(entry.path) != self._without:
                                folders.append(entry.path)
                        elif self.kind.owns(entry.path) and entry.is_file():
                            status = entry.stat()
                            facts = _digest(b"%d %d" % (status.st_size, status.st_mtime_ns))
                            name = _digest(os.fsencode(entry.path))
                            yield _File(name, facts, status.st_mtime_ns, entry.path)
            except OSError as error:
                if folder == self.path or not isinstance(error, FileNotFoundError):
                    self._unlisted[folder] = error.strerror


def _visible(folder: str) -> Iterator[os.DirEntry]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


def _read(path: str) -> bytes:
    """The bytes of a file, of a larger one MOST_BYTES and one more."""
    with open(path, "rb", opener=open_without_waiting) as file:
        return file.read(MOST_BYTES + 1)


def _is_fresh(file: _File) -> bool:
    """Whether a file may change again before the clock of its file system goes on, and look the same."""
    return abs(time.time_ns() - file.changed) < SETTLED * 1e9


def _digest(data: bytes) -> int:
    """A number of 64 bits that stands for `data`, never UNREAD."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") or 1


def named_on(descriptor: int, end: bytes = b"\n", items: bool = False) -> Iterator[Frame | None]:
    """The files whose names arrive on `descriptor`, each ended by `end`; None while none arrives.

    If `items`, each line is not the name of a file but the text itself, and its own name.
    """
    rest = b""
    while True:
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            yield None
            continue
        data = os.read(descriptor, BLOCK)
        *names, rest = (rest + data).split(end)
        rest = rest[: MAX_PATH + 1]  # one more shows that it is longer
        if not data:
            names, rest = [*names, rest], b""
        for line in names:
            if len(line) > MAX_PATH:  # nothing reads on behind; a character is not to be cut
                line = line[:MAX_PATH].rpartition(b" ")[0] or line[:MAX_PATH]
            line = line.removesuffix(b"\r").replace(b"\0", b" ")  # which no path may have
            if name := os.fsdecode(line):
                yield Frame(name, line if items else name)
        if not data:
            return
