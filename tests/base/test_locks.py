"""Locks and forks: a child has one thread of its parent, and none of the locks of the others."""

import os
import signal
import threading

import pytest

from tinytrain.base.locks import held_over_forks, lock_within, open_lock
from tinytrain.kernels.dispatch import machine_code

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def in_child(answer) -> int:
    """The whole number that `answer` returns in a forked process; -SIGALRM if it hangs."""
    if not (child := os.fork()):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(300)
        os._exit(answer())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def free(path, seconds=0.0) -> bool:
    descriptor = open_lock(path)
    try:
        return lock_within(descriptor, seconds)
    finally:
        os.close(descriptor)


def test_a_child_that_lives_on_does_not_keep_the_lock_of_its_parent(tmp_path):
    (reader, writer), descriptor = os.pipe(), open_lock(tmp_path / "lock")
    assert lock_within(descriptor, 0)
    if not (child := os.fork()):
        os.close(writer)
        os.read(reader, 1)  # until the parent ends it
        os._exit(0)
    assert not free(tmp_path / "lock"), "the parent has it, whatever the child does"
    os.close(descriptor)
    assert free(tmp_path / "lock", 100), "the child lets go of it as soon as it runs"
    for end in (reader, writer):
        os.close(end)
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_that_leaves_what_its_parent_locked_takes_nothing_from_it(tmp_path):
    descriptor = open_lock(tmp_path / "lock")
    assert lock_within(descriptor, 0)
    assert in_child(lambda: os.close(descriptor) or 0) == 0
    assert not free(tmp_path / "lock")
    os.close(descriptor)


def test_a_file_with_the_number_of_a_former_lock_stays_open_in_a_child(tmp_path):
    descriptor = open_lock(tmp_path / "lock")
    assert lock_within(descriptor, 0)
    os.close(descriptor)
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_WRONLY)
    assert other == descriptor and in_child(lambda: os.write(other, b"text")) == 4
    os.close(other)
    assert (tmp_path / "other").read_bytes() == b"text"


@pytest.mark.parametrize("of", ["this test", "LLVM"])
def test_a_fork_waits_for_a_lock_and_the_child_finds_it_free_and_what_it_guards_whole(of):
    lock = {"this test": held_over_forks(), "LLVM": machine_code.LOCK}[of]
    begun, waited, whole = threading.Event(), threading.Event(), []

    def half_done():
        with lock:
            begun.set()
            waited.wait(0.2)
            whole.append(True)

    thread = threading.Thread(target=half_done)
    thread.start()
    begun.wait()
    assert in_child(lambda: int(bool(whole) and lock.acquire(blocking=False))) == 1
    thread.join()
    with lock:
        pass
