"""Files read and written whole: checked before the first byte is read, replaced atomically on writing."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.units import format_bytes

REMEDIES = {
    errno.ENOSPC: "free some space and run again",
    errno.EDQUOT: "free some of your quota and run again",
    errno.EACCES: "choose a folder you may write to",
    errno.EPERM: "choose a folder you may write to",
    errno.EROFS: "choose a folder on a writable file system",
    errno.ENOENT: "create the folder first",
    errno.ENOTDIR: "one part of the path is a file; choose another folder",
    errno.EISDIR: "this is a folder; name a file inside it",
    errno.ENOTEMPTY: "a folder has the name of a file; move it away",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EIO: "check the storage device",
}
# Some network and FUSE file systems cannot fsync a folder; the rename alone has to be enough there.
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)


def read_bytes(path: str | os.PathLike, limit: int, least: int = 1) -> bytes:
    """Content of the regular file `path`, which must hold `least` (0 or 1) to `limit` bytes.

    Raises InputError ``file-missing``, ``file-unreadable``, ``file-kind`` (a folder, device or pipe, or more
    bytes) or ``file-damaged`` (fewer bytes).
    """
    try:
        with open(path, "rb", buffering=0, opener=open_without_waiting) as file:
            status = os.fstat(file.fileno())
            _check_status(path, status, limit, least)
            return _read_exactly(path, file, status.st_size)
    except ValueError as error:
        raise InputError(
            "file-unreadable", f"{os.fspath(path)!r} is not a path ({error}); name a file"
        ) from error
    except FileNotFoundError as error:
        raise InputError("file-missing", f"{path} does not exist; check the name") from error
    except IsADirectoryError as error:
        raise InputError("file-kind", f"{path} is a folder; name a regular file") from error
    except OSError as error:
        raise InputError(
            "file-unreadable", f"{path}: {error.strerror}; check the file and its rights"
        ) from error


def open_without_waiting(path: str, flags: int) -> int:
    """An `opener` for the builtin open that does not wait for a writer if `path` is a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def open_without_links(path: str, flags: int) -> int:
    """Like `open_without_waiting`, and fails if `path` is a symbolic link."""
    return open_without_waiting(path, flags | os.O_NOFOLLOW)


def _check_status(path, status: os.stat_result, limit: int, least: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InputError("file-kind", f"{path} is a folder, device or pipe; name a regular file")
    if status.st_size < least:
        raise InputError("file-damaged", f"{path} holds 0 bytes; copy the file again")
    if status.st_size > limit:
        raise InputError(
            "file-kind",
            f"{path} holds {format_bytes(status.st_size)}, more than the {format_bytes(limit)} that such a"
            " file may have; check that it is the right file",
        )


def _read_exactly(path, file, size: int) -> bytes:
    """`size` bytes of the unbuffered `file`, read with one allocation."""
    data = file.read(size)
    if len(data) != size:
        raise InputError(
            "file-unreadable", f"{path} gave {len(data)} of its {size} bytes; wait until nobody writes to it"
        )
    return data


def write_bytes(path: str | os.PathLike, data: bytes, mode: int = 0o666) -> None:
    """Replace `path` by `data` atomically: a power cut leaves the old file or the new one.

    Writes a temporary file in the same folder, syncs it, renames it and syncs the folder. If a step
    fails, the temporary file is removed. The file has the rights `mode` (0o600: a secret) less the umask.
    Raises StorageError ``write-failed``.
    """
    with _renamed_to(path) as temporary:
        _write_synced(temporary, data, mode)


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A new file, open for writing, that replaces `path` at the end: for more than fits in memory.

    As `write_bytes`, and if the block fails, nothing is left either.
    """
    with _renamed_to(path) as temporary, open(temporary, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _renamed_to(path: str | os.PathLike) -> Iterator[Path]:
    """The name of a temporary file that replaces `path` at the end; it is removed if the block fails."""
    path = Path(path)
    check_kind(path)
    temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError, ValueError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError | ValueError):
            raise write_failed(path, error) from error
        raise


def check_writable(path: str | os.PathLike) -> None:
    """Raise StorageError ``write-failed`` if `write_bytes` to `path` is bound to fail.

    Writes an empty temporary file to find out, because permissions alone do not tell.
    """
    if os.fsdecode(path).endswith(os.sep):
        raise write_failed(Path(path), IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    path = Path(path)
    probe = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.tmp"
    check_kind(path)
    try:
        _write_synced(probe, b"")
    except (OSError, ValueError) as error:
        raise write_failed(path, error) from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            probe.unlink()


def check_kind(path: Path) -> None:
    """Raise StorageError if `path` is a folder, device or pipe, or links to one: a file would replace it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise write_failed(path, error) from error
    if stat.S_ISDIR(mode):
        raise write_failed(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not stat.S_ISREG(mode):
        raise StorageError("write-failed", f"{path} is a device or a pipe; choose the name of a file")


def write_failed(path: Path, error: OSError | ValueError) -> StorageError:
    """The StorageError ``write-failed`` for `error` at `path`, with the remedy."""
    if isinstance(error, ValueError):
        return StorageError("write-failed", f"{str(path)!r} is not a path ({error}); choose another name")
    remedy = REMEDIES.get(error.errno, "choose another place and run again")
    return StorageError("write-failed", f"{path}: {error.strerror}; {remedy}")


def _write_synced(path: Path, data: bytes, mode: int = 0o666) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the file names in `folder` are on the storage medium. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)
