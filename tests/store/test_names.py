"""Pipes, folders, links and devices with the file names of a store: nothing hangs, nothing piles up."""

import contextlib
import os
import signal
import socket
import stat

import pytest

from tinytrain.base.errors import StorageError
from tinytrain.store.folder import LOCK, Folder
from tinytrain.store.record import DELTA_TEMPORARY, RECORD_TEMPORARY, RECORDS
from tinytrain.store.slots import Slots

PLANTED_DELTAS = ("tinytrain-1000.delta", "tinytrain-999999999999999.delta")
NAMES = (DELTA_TEMPORARY, RECORD_TEMPORARY, *RECORDS, *PLANTED_DELTAS, "tinytrain-1.delta", LOCK)
WRITTEN = {DELTA_TEMPORARY, RECORD_TEMPORARY, *RECORDS, LOCK}  # files that a commit must write


@pytest.fixture
def slots(tmp_path, monkeypatch):
    """A store with two confirmed deltas and no open files."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power cuts here, and many commits
    slots = Slots(Folder(tmp_path / "store"))
    for data in (b"one", b"two"):
        slots.commit(data)
        slots.confirm()
    return slots


@contextlib.contextmanager
def within(seconds):
    """A call that hangs fails the test."""

    def stop(*_):
        raise AssertionError(f"it hangs for {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def full_folder(path):
    path.mkdir()
    (path / "thesis").write_bytes(b"mine")


def bound_socket(path):
    # The path may be too long for the address of a socket.
    here = os.open(path.parent, os.O_RDONLY)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only the administrator can make devices")


KINDS = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "full folder": full_folder,
    "socket": bound_socket,
    "device": device,
    "link to nowhere": lambda path: path.symlink_to("nowhere"),
    "link to a file": lambda path: path.symlink_to("../precious"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}


def deltas(slots):
    return [name for name in slots.folder.names() if name.endswith(".delta")]


@pytest.mark.parametrize("damaged", [False, True], ids=["", "with a damaged record"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_hangs_and_old_deltas_go_whatever_has_a_name_of_the_store(
    slots, tmp_path, name, kind, damaged
):
    (tmp_path / "precious").write_bytes(b"mine")
    path, open_files = slots.folder.path / name, len(os.listdir("/proc/self/fd"))
    path.unlink(missing_ok=True)
    if damaged:
        (slots.folder.path / next(record for record in RECORDS if record != name)).write_bytes(b"x")
    KINDS[kind](path)
    with within(300):
        if not (damaged and name in RECORDS):  # otherwise no delta is left
            assert slots.look().data == b"two"
            # If the record of the confirmation is damaged, the delta is on trial and a start is counted.
            assert slots.start().data == b"two" or (kind == "full folder" and name in WRITTEN)
        if kind == "full folder" and name in WRITTEN:
            with pytest.raises(StorageError, match=f"{name}: Directory not empty; .* move it away"):
                for _ in range(2):  # the records take turns
                    slots.commit(b"x")
            assert (path / "thesis").exists()
            (path / "thesis").unlink()
        for data in (b"three", b"four", b"five"):
            slots.commit(data)
            slots.confirm()
    assert slots.start().data == b"five" and not slots.look().warnings
    left = {name} if kind == "full folder" and name not in WRITTEN else set()
    assert len(set(deltas(slots)) - left) == 2
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert len(os.listdir("/proc/self/fd")) == open_files
