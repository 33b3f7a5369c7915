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

import numpy as np

from tinytrain.base.errors import InputError

MOST = 1000  # names that a folder hands out after one look at it
SETTLED = 2.0  # seconds after its last change from which a file counts as written
MAX_PATH = 2**16
BLOCK = 2**16
WAIT_SECONDS = 0.2  # of a pipe, for the next name


@dataclass(frozen=True, eq=False)
class Frame:
    """An image to look at: its `name`, and its `content`, a path or the bytes of a file."""

    name: str
    content: str | bytes


@dataclass(frozen=True)
class Note:
    """What a source has to say."""

    text: str


class FolderSource:
    """New images of a folder and the folders inside it, the oldest first.

    A file is new if its name, size or time of change is. One that was changed less than two seconds ago is
    given when it has not changed between two looks. Files that vanish are passed over, as are hidden ones,
    links to folders, and the folder `without`. Memory: 8 bytes for each file in the folder, and 1,000 names.

    ``wait(seconds)`` is called where nothing is new; with `once`, that is the end. A look takes time in a
    large folder: there are nine times as many seconds between two of them.
    """

    def __init__(
        self,
        path: str,
        is_image: Callable[[str], bool],
        every: float = 1.0,
        once: bool = False,
        wait: Callable[[float], object] = time.sleep,
        without: str | None = None,
    ):
        self.path, self.is_image, self.every, self.once, self.wait = path, is_image, every, once, wait
        self._without = None if without is None else os.path.realpath(without)
        self._seen = np.empty(0, np.uint64)
        self._unsettled: dict[int, str] = {}
        self._look_seconds = 0.0

    def skip_present(self) -> None:
        """Pass over every image that is in the folder now."""
        self._seen = np.unique(np.fromiter((key for key, *_ in self._entries()), np.uint64))

    def __iter__(self) -> Iterator[Frame | None]:
        if not os.path.isdir(self.path):
            raise InputError("folder-missing", f"{self.path} is no folder; check the name")
        while True:
            fresh = self._look()
            yield from (Frame(path, path) for path in fresh)
            if fresh:
                continue
            if self.once and not self._unsettled:
                return
            yield None
            self.wait(
                max(min(self.every, SETTLED) if self._unsettled else self.every, 9 * self._look_seconds)
            )

    def _look(self) -> list[str]:
        """The oldest new images, MOST of them at most."""
        start, now = time.monotonic(), time.time_ns()
        before, self._unsettled = self._unsettled, {}
        keys, found = array("Q"), []
        for key, changed, path in self._entries():
            keys.append(key)
            if self._is_known(key):
                continue
            if abs(now - changed) < SETTLED * 1e9 and before.get(key) != path:
                if len(self._unsettled) < MOST:
                    self._unsettled[key] = path
                continue
            item = (-changed, path, key)
            (heapq.heappush if len(found) < MOST else heapq.heappushpop)(found, item)
        given = np.fromiter((key for *_, key in found), np.uint64, len(found))
        here = np.frombuffer(keys, np.uint64) if keys else np.empty(0, np.uint64)
        self._seen = np.union1d(np.intersect1d(self._seen, here), given)
        self._look_seconds = time.monotonic() - start
        return [path for _, path, _ in sorted(found, reverse=True)]

    def _is_known(self, key: int) -> bool:
        i = int(np.searchsorted(self._seen, np.uint64(key)))
        return i < len(self._seen) and int(self._seen[i]) == key

    def _entries(self) -> Iterator[tuple[int, int, str]]:
        """Key, time of change in ns, and path of every image; what vanishes meanwhile is passed over."""
        folders = [self.path]
        while folders:
            for entry in _visible(folders.pop()):
                with contextlib.suppress(OSError):  # it has vanished since
                    if entry.is_dir(follow_symlinks=False):
                        if self._without is None or os.path.realpath(entry.path) != self._without:
                            folders.append(entry.path)
                    elif self.is_image(entry.name) and entry.is_file():
                        status = entry.stat()
                        yield _key(entry.path, status), status.st_mtime_ns, entry.path


def _visible(folder: str) -> Iterator[os.DirEntry]:
    """What is in `folder` and not hidden; nothing if it has vanished or cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if not entry.name.startswith("."))
    except OSError:
        return


def _key(path: str, status: os.stat_result) -> int:
    """A number that stands for a file as it is now."""
    text = os.fsencode(path) + b"\0%d\0%d" % (status.st_size, status.st_mtime_ns)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def named_on(descriptor: int, end: bytes = b"\n") -> Iterator[Frame | None]:
    """The files whose names arrive on `descriptor`, each ended by `end`; None while none arrives."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            yield None
            continue
        data = os.read(descriptor, BLOCK)
        *names, rest = (rest + data).split(end)
        if not data or len(rest) > MAX_PATH:
            names, rest = [*names, rest], b""
        for name in names:
            if name := os.fsdecode(name.removesuffix(b"\r")):
                yield Frame(name, name)
        if not data:
            return
