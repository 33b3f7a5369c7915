"""The lock of a store: only users who may write can hold it, and waiting for it is bounded."""

import contextlib
import errno
import fcntl
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.locks import open_lock
from tinytrain.cli.main import main
from tinytrain.store import folder as storefolder
from tinytrain.store.folder import LOCK, Folder
from tinytrain.store.slots import Slots

OTHER_USER = 65534
as_two_users = pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator can act as two users")


@pytest.fixture
def slots(tmp_path):
    """A store with one confirmed delta and one on trial."""
    return filled(tmp_path)


@pytest.fixture
def public():
    """A store that other users can reach, unlike one below tmp_path."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield filled(Path(folder))


def filled(folder):
    slots = Slots(Folder(folder / "store"))
    slots.commit(b"one")
    slots.confirm()
    slots.commit(b"two")
    return slots


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(storefolder, "LOCK_SECONDS", 0.1)


@contextlib.contextmanager
def held(path):
    """Another process holds `path`."""
    code = (
        "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], 0), 2); print(flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, path], **pipes) as other:
        assert other.stdout.readline() == b"\n"
        yield
        other.communicate(b"\n")


def as_another(call):
    """The result of `call`, a small number, in a process of another user."""
    if not (child := os.fork()):
        result = 99
        try:
            os.setgroups([])
            os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
            os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
            result = call()
        finally:
            os._exit(result)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def can_lock(path):
    try:
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError:
        return 0
    return 1


def test_a_reader_who_locks_a_readable_file_does_not_block_others(slots, impatient):
    with contextlib.ExitStack() as stack:
        for name in (".", *slots.folder.names()):
            stack.enter_context(held(slots.folder.path / name))
        assert slots.start().data == b"two"
        slots.confirm()
        slots.commit(b"three")


@as_two_users
def test_another_user_cannot_open_the_lock(public):
    assert as_another(lambda: can_lock(public.folder.path)) == 1, "the folder itself, which is not the lock"
    assert as_another(lambda: can_lock(public.folder.path / LOCK)) == 0


@pytest.mark.parametrize(("folder", "file"), [(0o755, 0o600), (0o700, 0o600), (0o775, 0o660), (0o777, 0o666)])
def test_the_lock_is_for_those_who_may_write_to_the_folder(slots, folder, file):
    lock = slots.folder.path / LOCK
    slots.folder.path.chmod(folder)
    lock.unlink()
    slots.confirm()
    assert lock.stat().st_mode & 0o777 == file
    lock.chmod(0o644)  # as copied with other permissions
    slots.confirm()
    assert lock.stat().st_mode & 0o777 == 0o644 & file


@as_two_users
def test_a_lock_that_the_administrator_made_is_the_owners(slots):
    os.chown(slots.folder.path, OTHER_USER, OTHER_USER)
    (slots.folder.path / LOCK).unlink()
    slots.confirm()
    status = (slots.folder.path / LOCK).stat()
    assert (status.st_uid, status.st_gid) == (OTHER_USER, OTHER_USER)


@as_two_users
@pytest.mark.parametrize("content", [b"", b"secret"])
def test_a_file_that_was_renamed_to_the_lock_keeps_owner_and_mode(slots, content):
    """The owner of the folder can rename a file that root put there."""
    lock = slots.folder.path / LOCK
    lock.write_bytes(content)
    for mode in (0o600, 0o640) if content else (0o600,):
        lock.chmod(mode)
        slots.folder.path.chmod(0o777)
        os.chown(slots.folder.path, OTHER_USER, OTHER_USER)
        for use in (slots.look, slots.start, slots.confirm):
            use()
            status = lock.stat()
            assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, 0, mode)


@as_two_users
def test_a_member_of_a_group_whom_the_lock_keeps_out_is_told_how_its_owner_opens_it(public, capfd):
    folder = public.folder.path
    os.chown(folder, 0, OTHER_USER)
    folder.chmod(0o2775)
    main(
        ["confirm", "--store", str(folder / "none")]
    )  # import everything now: the other user may not be able to
    capfd.readouterr()
    assert as_another(lambda: main(["confirm", "--store", str(folder)])) == 6
    line = capfd.readouterr().err
    assert line.count("\n") == 1
    command = re.search(r"its owner must run '(.*)'\n", line)[1]
    subprocess.run(command, shell=True, check=True)
    assert as_another(lambda: public.confirm().confirmed) == 1, "what the message says helps"


def test_a_change_of_a_store_that_another_process_holds_is_refused_after_a_while(slots, impatient, tmp_path):
    with held(slots.folder.path / LOCK):
        for change in (lambda: slots.commit(b"x"), slots.confirm, slots.roll_back):
            with pytest.raises(StorageError, match=r"store-busy: .*held it for .*fuser .*lock") as caught:
                change()
            assert caught.value.exit_code == 6 and "\n" not in str(caught.value)
        assert main(["confirm", "--store", str(slots.folder.path)]) == 6
    assert slots.confirm().current.generation == 2


def test_a_start_that_cannot_lock_uses_the_delta_that_needs_no_count(slots, impatient):
    with held(slots.folder.path / LOCK):
        assert slots.look().data == b"two"
        state = slots.start()
        assert (
            state.data == b"one" and "could not be counted (another process has held it" in state.warnings[0]
        )
    assert slots.look().record.starts == 0
    slots.confirm()
    with held(slots.folder.path / LOCK):
        assert slots.start().data == b"two" and slots.start().warnings == ()


def test_damage_seen_without_the_lock_that_was_a_change_in_between_is_not_told(slots, impatient, monkeypatch):
    seen = iter([None, b"two"])
    monkeypatch.setattr(slots.files, "content", lambda slot, strict: next(seen, b"one"))
    with held(slots.folder.path / LOCK):
        assert slots.look().warnings == ()


@as_two_users
def test_a_store_of_somebody_else_is_read_without_its_lock(public):
    public.confirm()

    def read():
        return [public.look().data, public.start().data] != [b"two"] * 2 or bool(public.start().warnings)

    before = sorted(os.listdir(public.folder.path))
    assert as_another(read) == 0
    (public.folder.path / LOCK).unlink()  # as in a store of an older version
    assert as_another(read) == 0
    assert sorted(os.listdir(public.folder.path)) == [name for name in before if name != LOCK]


def test_a_file_system_that_cannot_lock_is_read_and_not_written(slots, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert slots.look().data == b"two" and slots.start().data == b"one"
    with pytest.raises(StorageError, match=r"write-failed: .*No locks available"):
        slots.confirm()


def test_a_store_without_a_lock_file_gets_one(slots):
    (slots.folder.path / LOCK).unlink()
    assert slots.look().data == b"two" and not (slots.folder.path / LOCK).exists(), (
        "to look is to write nothing"
    )
    assert slots.start().data == b"two" and (slots.folder.path / LOCK).stat().st_size == 0


def test_in_a_folder_without_a_store_nothing_is_made(tmp_path):
    slots = Slots(Folder(tmp_path))
    assert slots.look().data is slots.start().data is None
    for change in (slots.confirm, slots.roll_back):
        with pytest.raises(InputError, match="store-missing"):
            change()
    assert os.listdir(tmp_path) == []


def test_a_store_whose_lock_vanishes_is_not_called_empty(slots, monkeypatch):
    def vanished(*_, **__):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(slots.folder.path / LOCK))

    monkeypatch.setattr(storefolder, "open_lock", vanished)
    for change in (slots.confirm, slots.roll_back):
        with pytest.raises(StorageError, match=r"write-failed: .*tinytrain\.lock: No such file"):
            change()


def test_a_lock_file_is_neither_waited_for_nor_followed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for name in ("pipe", "link", "folder"):
        with pytest.raises(OSError):
            open_lock(tmp_path / name)
    assert not (tmp_path / "target").exists() and len(os.listdir("/proc/self/fd")) == before
