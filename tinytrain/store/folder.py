"""The file operations that the store is built from, on one folder and nothing else.

The store reaches the disk only through `Folder`, so that a simulated folder that loses power at any of
these operations can take its place.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tinytrain.base.files import open_without_links, sync_folder
from tinytrain.base.locks import lock_within, open_lock

LOCK = "tinytrain.lock"
LOCK_SECONDS = 20.0


class NotLockedError(OSError):
    """The store cannot be locked: another process has it (errno ETIMEDOUT), or its lock cannot be opened."""


class Folder:
    """A folder of flat files. Every method raises OSError when its operation fails.

    Nothing waits for the other end of a pipe, no link is followed, and what has the name of a file that is to
    be written gives way to it; only a folder with something inside does not.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def make(self) -> None:
        """Create the folder inside an existing one, unless it is there."""
        try:
            self.path.mkdir()
        except FileExistsError:
            if not self.path.is_dir():
                raise
            return
        sync_folder(self.path.parent)

    @contextlib.contextmanager
    def lock(self, *, create: bool) -> Iterator[None]:
        """Keep every other process out of the store; the kernel lets go when this one dies.

        The lock is a file without content: whether it survives a power cut does not matter. With `create` it
        is made where there is none. Raises NotLockedError.
        """
        with contextlib.ExitStack() as stack:
            try:
                descriptor = self._open_lock(create)
                stack.callback(os.close, descriptor)
                free = lock_within(descriptor, LOCK_SECONDS)
            except OSError as error:
                raise NotLockedError(error.errno, error.strerror, error.filename) from error
            if not free:
                text = f"another process has held it for {LOCK_SECONDS:.0f} s"
                raise NotLockedError(errno.ETIMEDOUT, text, str(self.path / LOCK))
            yield

    def _open_lock(self, create: bool) -> int:
        path = self.path / LOCK
        # A regular file stays: it may be the lock that somebody holds.
        if create and os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            self.remove(LOCK)
        return open_lock(path, create=create)

    def names(self) -> list[str]:
        """Everything in the folder but its lock."""
        return sorted(name for name in os.listdir(self.path) if name != LOCK)

    def read(self, name: str, limit: int) -> bytes:
        """Content of file `name`, its first `limit` + 1 bytes at most: one more tells that it is too long.

        What is no regular file is empty.
        """
        path = self.path / name
        if not stat.S_ISREG(path.lstat().st_mode):
            return b""
        with open(path, "rb", opener=open_without_links) as file:
            return file.read(limit + 1)

    def create(self, name: str) -> "File":
        """Open `name` for writing, empty."""
        try:
            return File(self.path / name)
        except FileExistsError:
            self.remove(name)
            return File(self.path / name)

    def rename(self, old: str, new: str) -> None:
        """Give file `old` the name `new`, in place of the file that has it."""
        try:
            os.replace(self.path / old, self.path / new)
        except IsADirectoryError:
            self.remove(new)
            os.replace(self.path / old, self.path / new)

    def remove(self, name: str) -> None:
        """Remove a file, whatever its kind, or an empty folder."""
        try:
            os.unlink(self.path / name)
        except IsADirectoryError:
            os.rmdir(self.path / name)

    def sync(self) -> None:
        """Wait until the names of the folder are on the medium."""
        sync_folder(self.path)


class File:
    """A new file being written. Raises FileExistsError where anything has its name."""

    def __init__(self, path: Path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o666)

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_) -> None:
        os.close(self._descriptor)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        """Wait until the content is on the medium."""
        os.fsync(self._descriptor)
