"""Locks between processes: nobody waits for one without end, and only those hold one who may write there."""

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
    """Descriptor of the lock file `path`, which who may write to its folder can open, and nobody else.

    Only a lock that this call makes gets owner, group and rights: whatever is there already may be another
    file that was given its name. Nothing waits, no link is followed. Raises OSError; FileExistsError for what
    is no regular file.
    """
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        descriptor, made = os.open(path, flags | (os.O_EXCL if create else 0), 0o600), create
    except FileExistsError:
        descriptor, made = os.open(path, flags, 0o600), False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileExistsError(errno.EEXIST, "this is no regular file", str(path))
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
    """Mode of a lock file that those may open who may write to its folder; to read comes with to write."""
    return 0o600 | (folder.st_mode & OTHERS_MAY_WRITE) * 3


def _share(descriptor: int, folder: os.stat_result) -> None:
    """Give a new lock file owner, group and writers of its folder: an administrator may have made it."""
    owner = folder.st_uid if os.geteuid() == 0 else -1
    with contextlib.suppress(OSError):
        os.fchown(descriptor, owner, folder.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, _mode_in(folder))


def _close_to_others(descriptor: int, folder: os.stat_result) -> None:
    """Take from others the rights to a lock that was copied with more of them; nothing is given here."""
    status = os.fstat(descriptor)
    excess = stat.S_IMODE(status.st_mode) & ~_mode_in(folder)
    if excess and status.st_size == 0 and status.st_nlink == 1:  # what has content or another name is no lock
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~excess)


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
