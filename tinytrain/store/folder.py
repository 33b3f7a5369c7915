"""The file operations that the store is built from, on one folder and nothing else.

The store reaches the disk only through `Folder`, so that a simulated folder that loses power at any of
these operations can take its place.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tinytrain.atomic import sync_folder


class Folder:
    """A folder of flat files. Every method raises OSError when its operation fails."""

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
    def lock(self) -> Iterator[None]:
        """Keep every other process out of the store; the kernel lets go when this one dies."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path))

    def read(self, name: str, limit: int) -> bytes:
        """Content of file `name`, its first `limit` + 1 bytes at most: one more tells that it is too long."""
        # A FIFO must not wait and a link must not lead out of the folder.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(self.path / name, flags), "rb") as file:
            return file.read(limit + 1)

    def create(self, name: str) -> "File":
        """Open `name` for writing, empty."""
        return File(self.path / name)

    def rename(self, old: str, new: str) -> None:
        """Give file `old` the name `new`, in place of the file that has it."""
        os.replace(self.path / old, self.path / new)

    def remove(self, name: str) -> None:
        os.unlink(self.path / name)

    def sync(self) -> None:
        """Wait until the names of the folder are on the medium."""
        sync_folder(self.path)


class File:
    """A file being written."""

    def __init__(self, path: Path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
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
