"""Remembers where a user's own networks are: a file for each digest, with a path, in the cache folder."""

import contextlib
import os
from pathlib import Path

from tinytrain.base.cache_folder import cache_folder
from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.files import read_bytes, write_bytes

MAX_PATH = 4096


def remember(digest: str, path: str | os.PathLike) -> None:
    """Note that the network with this digest is the file `path`, unless that is known already.

    A cache folder that cannot be written is no error: the note only saves the user an option.
    """
    path = os.path.realpath(path)
    if os.fspath(recall(digest) or "") == path:
        return
    with contextlib.suppress(OSError, StorageError):
        note = _note(digest)
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(note, os.fsencode(path))


def recall(digest: str) -> Path | None:
    """The path that was noted for this digest; None without a note, or if it is damaged.

    The file may have changed or be gone.
    """
    try:
        path = os.fsdecode(read_bytes(_note(digest), MAX_PATH))
    except InputError:
        return None
    return Path(path) if os.path.isabs(path) and "\0" not in path else None


def _note(digest: str) -> Path:
    return cache_folder("networks") / digest
