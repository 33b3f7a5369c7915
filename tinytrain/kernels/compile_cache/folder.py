"""The folder of compiled kernels as files: private, read without following links."""

import functools
import grp
import os
import pwd
import re
import shutil
import stat
import time
from pathlib import Path

from tinytrain.base.errors import StorageError
from tinytrain.base.files import open_without_links
from tinytrain.base.locks import OTHERS_MAY_WRITE

WRITING, WRITING_SECONDS = ".tmp", 3600  # a file that another process is writing; for how long it may
OURS = "[0-9a-f]{16}"  # names of the folders in the folder of all caches


def make_private(folder: Path, ours: str = ".*") -> None:
    """Create `folder` and see to it that only its owner can write there.

    Where others could write, everything whose name is `ours` is removed; what else lies there is not used.
    Raises StorageError where it belongs to somebody else, cannot be written, or could be exchanged by others;
    OSError where it cannot be made. Links are refused.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if doubt := in_doubt(folder.parent):
        raise StorageError("jit-cache", doubt)
    status = folder.lstat()
    if doubt := _no_folder(folder, status):
        raise StorageError("jit-cache", doubt)
    if status.st_uid != os.geteuid():
        raise StorageError("jit-cache", f"{folder} belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & OTHERS_MAY_WRITE:
        # Others may have put files here, a manifest included; compiled code is not worth the doubt.
        folder.chmod(0o700)
        for path in [path for path in folder.iterdir() if re.fullmatch(ours, path.name)]:
            remove(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError("jit-cache", f"{folder} cannot be written")


def in_doubt(folder: Path) -> str | None:
    """Who else could put another folder in the place of `folder`, as a fact; None if only this user and the
    administrator can. Links are refused. Raises OSError.
    """
    for place in (folder, *folder.parents):
        status = place.lstat()
        if doubt := _no_folder(place, status):
            return doubt
        if status.st_uid not in _trusted():
            return f"{place} belongs to user {status.st_uid}, not to {os.geteuid()}"
        if _others_may_write(status) and not status.st_mode & stat.S_ISVTX:
            return f"others may write to {place}"
    return None


def _no_folder(place: Path, status: os.stat_result) -> str | None:
    return None if stat.S_ISDIR(status.st_mode) else f"{place} is a link or a file, not a folder"


def _trusted() -> set[int]:
    """Users who may exchange folders: this one, and the administrator, who can do so anyway.

    The administrator is whoever owns the root folder, too: in a user namespace that maps only the number of
    this user (bubblewrap, toolbox, Apptainer), it belongs to the number that stands for everybody else. There
    other users cannot be told from the administrator; what they may write to still can.
    """
    return {0, os.geteuid(), os.stat("/").st_uid}


def _others_may_write(status: os.stat_result) -> bool:
    """Whether the mode lets somebody else write; many systems give every user a group of one's own."""
    mode = status.st_mode
    return bool(mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_own_group(status.st_gid)))


@functools.cache
def _is_own_group(group: int) -> bool:
    """Whether `group` has the name of this user and no other member.

    That nobody else has it as the primary group is assumed: to know, one would have to list all accounts,
    which takes long or is forbidden where a server keeps them.
    """
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (user.pw_gid, user.pw_name) == (group, found.gr_name) and set(found.gr_mem) <= {user.pw_name}


def is_being_written(path: Path) -> bool:
    """Whether another process may be at `path`, a temporary file, which is never read."""
    try:
        status = path.lstat()
    except OSError:
        return False
    young = time.time() - status.st_mtime < WRITING_SECONDS
    return path.name.endswith(WRITING) and stat.S_ISREG(status.st_mode) and young


def read_regular(path: Path, limit: int) -> bytes:
    """Content of the regular file `path` of this user or the administrator, `limit` bytes at most.

    Raises OSError.
    """
    with open(path, "rb", opener=open_without_links) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in _trusted() or status.st_size > limit:
            raise OSError(f"{path} is no file of this user with {limit} bytes at most")
        return file.read(status.st_size)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder; links are not followed. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def forget_others(folder: Path, kept: int) -> None:
    """Remove the oldest folders beside `folder` but `kept`; whoever still uses one compiles again."""
    others = [p for p in folder.parent.iterdir() if p != folder and re.fullmatch(OURS, p.name)]
    for path in sorted(others, key=lambda path: path.lstat().st_mtime)[:-kept]:
        shutil.rmtree(path, ignore_errors=True)
