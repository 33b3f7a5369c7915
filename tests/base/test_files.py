"""Files: only regular files of a sane size are read; a written file is complete or missing."""

import errno
import os
import socket
import stat

import pytest
from cases import each

from tinytrain.base import files as atomic
from tinytrain.base.errors import InputError, StorageError


def test_written_bytes_are_read_back(tmp_path):
    atomic.write_bytes(tmp_path / "a", b"first")
    atomic.write_bytes(tmp_path / "a", b"second")
    assert atomic.read_bytes(tmp_path / "a", 100) == b"second"
    assert os.listdir(tmp_path) == ["a"]


def test_a_written_file_has_the_usual_rights(tmp_path):
    (tmp_path / "usual").write_bytes(b"x")
    atomic.write_bytes(tmp_path / "ours", b"x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours")]
    assert modes[0] == modes[1]


def test_a_relative_name_is_written_into_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    atomic.write_bytes("plain", b"x")
    assert os.listdir(tmp_path) == ["plain"]


def test_file_is_synced_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    calls = []

    def record(name, real):
        def call(*arguments, **options):
            calls.append(name)
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("write", "fsync", "replace"):
        record(name, getattr(os, name))
    atomic.write_bytes(tmp_path / "a", b"x")
    assert calls == ["write", "fsync", "replace", "fsync"]


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
    atomic.write_bytes(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


@each("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES, errno.EDQUOT])
@each("operation", ["open", "write", "fsync", "replace"])
def test_any_failing_operation_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, operation, number):
    (tmp_path / "a").write_bytes(b"old")

    def fail(*arguments, **options):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, operation, fail)
        with pytest.raises(StorageError) as caught:
            atomic.write_bytes(tmp_path / "a", b"new")
    message = str(caught.value)
    assert caught.value.code == "write-failed"
    assert str(tmp_path / "a") in message and os.strerror(number) in message and "\n" not in message
    assert atomic.REMEDIES[number] in message
    assert (tmp_path / "a").read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("operation", ["fsync", "close"])
def test_trying_out_a_folder_leaves_nothing_there_whatever_fails(tmp_path, monkeypatch, operation):
    real = getattr(os, operation)

    def fail(descriptor):
        if operation == "close":
            real(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, operation, fail)
    with pytest.raises(StorageError, match="free some space"):
        atomic.check_writable(tmp_path / "x")
    monkeypatch.undo()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("number", atomic.NO_FOLDER_SYNC)
def test_a_file_system_that_cannot_sync_folders_is_good_enough(tmp_path, monkeypatch, number):
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    atomic.write_bytes(tmp_path / "a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


def test_a_failing_folder_sync_is_reported(tmp_path, monkeypatch):
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "broken")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="broken"):
        atomic.write_bytes(tmp_path / "a", b"x")


def test_an_interrupt_leaves_no_temporary_file(tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic.write_bytes(tmp_path / "a", b"x")
    assert os.listdir(tmp_path) == []


@each("name", ["missing/file", "", "file/below", "nul\0", "x" * 300])
def test_a_name_that_cannot_be_written_is_a_storage_error(tmp_path, name):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(StorageError):
        atomic.write_bytes(tmp_path / name, b"x")
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("target", ["/dev/null", None])
def test_devices_pipes_and_links_to_them_are_not_replaced_by_files(tmp_path, target):
    path = tmp_path / "x"
    if target:
        path.symlink_to(target)
    else:
        os.mkfifo(path)
    before = path.lstat()
    for attempt in (lambda: atomic.check_writable(path), lambda: atomic.write_bytes(path, b"x")):
        with pytest.raises(StorageError, match="is a device or a pipe"):
            attempt()
    assert path.lstat() == before and os.listdir(tmp_path) == ["x"]


def fifo(path):
    os.mkfifo(path)


def dangling(path):
    path.symlink_to(path.parent / "nowhere")


def loop(path):
    path.symlink_to(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def sparse(path):
    with open(path, "wb") as file:
        file.truncate(4 * 2**30)


@each(
    ("make", "code"),
    [
        (lambda path: None, "file-missing"),
        (lambda path: path.mkdir(), "file-kind"),
        (fifo, "file-kind"),
        (lambda path: path.symlink_to("/dev/zero"), "file-kind"),
        (lambda path: path.symlink_to("/dev/null"), "file-kind"),
        (unix_socket, "file-unreadable"),
        (dangling, "file-missing"),
        (loop, "file-unreadable"),
        (lambda path: path.write_bytes(b""), "file-damaged"),
        (lambda path: path.write_bytes(b"x" * 101), "file-kind"),
        (sparse, "file-kind"),
    ],
)
def test_only_regular_files_of_sane_size_are_read(tmp_path, monkeypatch, make, code):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "file")
    with pytest.raises(InputError, match=str(tmp_path)) as caught:
        atomic.read_bytes(tmp_path / "file", 100)
    assert caught.value.code == code


def test_a_path_with_a_nul_is_an_input_error():
    with pytest.raises(InputError) as caught:
        atomic.read_bytes("a\0b", 100)
    assert caught.value.code == "file-unreadable" and "is not a path" in caught.value.message


def test_a_file_that_shrinks_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"0123456789")
    real = atomic._check_status

    def shrink(path, *more):
        real(path, *more)
        os.truncate(path, 4)

    monkeypatch.setattr(atomic, "_check_status", shrink)
    with pytest.raises(InputError) as caught:
        atomic.read_bytes(tmp_path / "a", 100)
    assert caught.value.code == "file-unreadable" and "of its" in caught.value.message


def test_a_refused_file_is_closed(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(InputError, match="is a folder"):
            atomic.read_bytes(tmp_path, 10)
    assert len(os.listdir("/proc/self/fd")) == before
