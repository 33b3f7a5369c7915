"""Locks between processes: nobody waits for one without end, and only those hold one who may write there."""

import contextlib
import errno
import fcntl
import os
import stat
import time
from pathlib import Path

PAUSE_SECONDS = 0.05
OTHERS_MAY_WRITE = 0o022


def open_lock(path: Path, *, create: bool = True) -> int:
    """Descriptor of the lock file `path`, which who may write to its folder can open, and nobody else.

    Nothing waits, no link is followed. Raises OSError; FileExistsError for what is no regular file.
    """
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileExistsError(errno.EEXIST, "this is no regular file", str(path))
        _share(descriptor, path.parent.stat())
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _share(descriptor: int, folder: os.stat_result) -> None:
    """Give the lock file owner, group and writers of its folder: an administrator may have made it."""
    status = os.fstat(descriptor)
    owner = folder.st_uid if os.geteuid() == 0 else -1
    mode = 0o600 | (folder.st_mode & OTHERS_MAY_WRITE) * 3  # to read comes with to write
    if owner not in (-1, status.st_uid) or status.st_gid != folder.st_gid:
        with contextlib.suppress(OSError):
            os.fchown(descriptor, owner, folder.st_gid)
    if stat.S_IMODE(status.st_mode) != mode:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, mode)


def lock(descriptor: int, seconds: float = 0) -> bool:
    """Like `lock_within`; True, without a lock, where the file system has none."""
    try:
        return lock_within(descriptor, seconds)
    except OSError:
        return True


def lock_within(descriptor: int, seconds: float) -> bool:
    """False if another process has it for all of `seconds`. Raises OSError where the file system has none."""
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(PAUSE_SECONDS)
