"""Locks between processes: waiting is bounded, and only users who may write to the folder can take one.

And what becomes of locks if a process forks: the child has the thread that forked, and none of the others.
"""

import contextlib
import errno
import fcntl
import os
import shlex
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tinytrain.base.errors import StorageError
from tinytrain.base.files import write_failed

PAUSE_SECONDS = 0.05
OTHERS_MAY_WRITE = 0o022
_taken: dict[int, tuple[int, int]] = {}  # descriptors that took a lock, and the files that they were of


def open_lock(path: Path, *, create: bool = True) -> int:
    """Descriptor of the lock file `path`. Users who may write to its folder can open it, others cannot.

    Owner, group and permissions are set only on a file that this call creates: an existing one may be
    another file with that name. Never waits, never follows a link. Raises OSError; FileExistsError if
    `path` is not a regular file.
    """
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        descriptor, made = os.open(path, flags | (os.O_EXCL if create else 0), 0o600), create
    except FileExistsError:
        descriptor, made = os.open(path, flags, 0o600), False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileExistsError(errno.EEXIST, "this is not a regular file", str(path))
        if made:
            _share(descriptor, path.parent.stat())
        elif create:
            _close_to_others(descriptor, path.parent.stat())
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def lock_failed(path: Path, error: OSError) -> StorageError:
    """The StorageError ``write-failed`` for the lock file `path` that `open_lock` could not open."""
    if error.errno != errno.EACCES or not os.access(path.parent, os.W_OK):
        return write_failed(path, error)
    folder, file = path.parent.stat(), shlex.quote(str(path))
    command = f"chgrp {folder.st_gid} {file} && chmod {_mode_in(folder):o} {file}"
    return StorageError("write-failed", f"{path}: {error.strerror}; its owner must run '{command}'")


def _mode_in(folder: os.stat_result) -> int:
    """Mode of a lock file: users who may write to its folder may read and write it."""
    return 0o600 | (folder.st_mode & OTHERS_MAY_WRITE) * 3


def _share(descriptor: int, folder: os.stat_result) -> None:
    """Give a new lock file the owner, group and writers of its folder, as root may have created it."""
    owner = folder.st_uid if os.geteuid() == 0 else -1
    with contextlib.suppress(OSError):
        os.fchown(descriptor, owner, folder.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, _mode_in(folder))


def _close_to_others(descriptor: int, folder: os.stat_result) -> None:
    """Remove the permissions of a lock that exceed those of its folder, for example of a copied lock."""
    status = os.fstat(descriptor)
    excess = stat.S_IMODE(status.st_mode) & ~_mode_in(folder)
    if excess and status.st_size == 0 and status.st_nlink == 1:  # a file with content or links is not a lock
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~excess)


def lock(descriptor: int, seconds: float = 0) -> bool:
    """Like `lock_within`, but returns True without a lock if the file system has no locks."""
    try:
        return lock_within(descriptor, seconds)
    except OSError:
        return True


def lock_within(descriptor: int, seconds: float, kind: int = fcntl.LOCK_EX) -> bool:
    """Take the lock, LOCK_SH to share it; False if another process holds it for all of `seconds`.

    Raises OSError if the file system has no locks.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            _taken[descriptor] = _file_of(descriptor)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(PAUSE_SECONDS)


def _file_of(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:  # it was closed
        return None
    return status.st_dev, status.st_ino


def _leave_to_parent() -> None:
    """Let go of the locks of the parent in a forked child, which would hold them for as long as it lives."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor, file in _taken.items():
        if _file_of(descriptor) == file:
            os.dup2(nothing, descriptor, inheritable=False)  # whoever closes it finds it open
    os.close(nothing)
    _taken.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def held_over_forks(in_child: Callable[[], None] = lambda: None):
    """A lock of threads that a fork waits for: what it guards is whole in the child, too.

    The child calls `in_child` before it lets go of the lock.
    """
    lock = threading.RLock()

    def forked() -> None:
        try:
            in_child()
        finally:
            lock.release()

    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=forked)
    return lock
