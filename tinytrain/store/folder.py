"""The file operations of the store, on one folder.

The store accesses the disk only through `Folder`. So tests can replace it by a simulated folder that loses
power at any of these operations.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tinytrain.base.files import open_without_links, sync_folder
from tinytrain.base.locks import lock_within, open_lock

LOCK, HOLD = "tinytrain.lock", "tinytrain.watch"
LOCK_SECONDS = 20.0


class NotLockedError(OSError):
    """The store cannot be locked: another process holds it (ETIMEDOUT), or the lock file cannot be opened."""


class Folder:
    """A folder of flat files. Every method raises OSError if its operation fails.

    No operation waits for the other end of a pipe or follows a link. A new file replaces anything of the same
    name, except a folder with content.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def make(self) -> None:
        """Create the folder inside an existing one if it is missing."""
        try:
            self.path.mkdir()
        except FileExistsError:
            if not self.path.is_dir():
                raise
            return
        sync_folder(self.path.parent)

    @contextlib.contextmanager
    def lock(self, *, create: bool, seconds: float | None = None) -> Iterator[None]:
        """Keep other processes out of the store; the kernel releases the lock if this process dies.

        The lock is an empty file, which need not survive a power cut. With `create` it is created if it is
        missing. Raises NotLockedError after so many `seconds`, by default LOCK_SECONDS.
        """
        seconds = LOCK_SECONDS if seconds is None else seconds
        with contextlib.ExitStack() as stack:
            try:
                descriptor = self._open_lock(create)
                stack.callback(os.close, descriptor)
                free = lock_within(descriptor, seconds)
            except OSError as error:
                raise NotLockedError(error.errno, error.strerror, error.filename) from error
            if not free:
                text = f"another process has held it for {seconds:.0f} s"
                raise NotLockedError(errno.ETIMEDOUT, text, str(self.path / LOCK))
            yield

    def hold(self) -> int:
        """Show others that this process judges a trial, as long as the returned descriptor is open.

        The kernel closes it if the process dies. Raises OSError.
        """
        descriptor = open_lock(self.path / HOLD)
        try:
            if lock_within(descriptor, 1.0, fcntl.LOCK_SH):
                return descriptor
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(self.path / HOLD))
        except OSError:
            os.close(descriptor)
            raise

    def is_held(self) -> bool:
        """Whether a process holds the folder."""
        try:
            descriptor = open_lock(self.path / HOLD, create=False)
        except OSError:
            return False
        try:
            return not lock_within(descriptor, 0)
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def _open_lock(self, create: bool) -> int:
        path = self.path / LOCK
        # A regular file stays, because another process may hold it as the lock.
        if create and os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            self.remove(LOCK)
        return open_lock(path, create=create)

    def names(self) -> list[str]:
        """All names in the folder except the locks."""
        return sorted(name for name in os.listdir(self.path) if name not in (LOCK, HOLD))

    def read(self, name: str, limit: int) -> bytes:
        """The first `limit` + 1 bytes of file `name`; the last one shows that the file is too long.

        Empty if it is not a regular file.
        """
        path = self.path / name
        if not stat.S_ISREG(path.lstat().st_mode):
            return b""
        with open(path, "rb", opener=open_without_links) as file:
            return file.read(limit + 1)

    def create(self, name: str) -> "File":
        """Open `name` as a new empty file for writing."""
        try:
            return File(self.path / name)
        except FileExistsError:
            self.remove(name)
            return File(self.path / name)

    def append(self, name: str) -> "File":
        """Open the regular file `name` for writing at its end."""
        path = self.path / name
        if not stat.S_ISREG(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "this is not a regular file", str(path))
        return File(path, os.O_APPEND | os.O_NOFOLLOW)

    def rename(self, old: str, new: str) -> None:
        """Rename file `old` to `new`, replacing a file of that name."""
        try:
            os.replace(self.path / old, self.path / new)
        except IsADirectoryError:
            self.remove(new)
            os.replace(self.path / old, self.path / new)

    def remove(self, name: str) -> None:
        """Remove a file of any kind, or an empty folder."""
        try:
            os.unlink(self.path / name)
        except IsADirectoryError:
            os.rmdir(self.path / name)

    def sync(self) -> None:
        """Wait until the names in the folder are on the medium."""
        sync_folder(self.path)


class File:
    """A file being written: by default a new one. Raises FileExistsError if its name is taken."""

    def __init__(self, path: Path, flags: int = os.O_CREAT | os.O_EXCL):
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o666)

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_) -> None:
        os.close(self._descriptor)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def truncate(self, size: int) -> None:
        """Cut the file off after `size` bytes."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Wait until the content is on the medium."""
        os.fsync(self._descriptor)
