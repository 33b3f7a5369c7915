"""Locks between processes: waiting is bounded, and only users who may write to the folder can take one."""

import contextlib
import errno
import fcntl
import os
import shlex
import stat
import time
from pathlib import Path

from tinytrain.base.errors import StorageError
from tinytrain.base.files import write_failed

PAUSE_SECONDS = 0.05
OTHERS_MAY_WRITE = 0o022


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


def lock_within(descriptor: int, seconds: float) -> bool:
    """Take the lock; False if another process holds it for all of `seconds`.

    Raises OSError if the file system has no locks.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(PAUSE_SECONDS)
