"""BLAS runs on one thread inside the block, with any other users; then the former limit is restored."""

import os
import threading

import pytest
import threadpoolctl

from tinytrain.kernels.blas import library, one_thread

THREADS = 2


@pytest.fixture
def threads():
    """The current number of threads of BLAS; THREADS outside of the blocks of the tests."""
    if library() is None:
        pytest.skip("threadpoolctl knows no BLAS of this numpy")
    with threadpoolctl.threadpool_limits(THREADS, user_api="blas"):
        yield lambda: library()["num_threads"]


class Inside:
    """A thread that is inside the block from `__init__` to `leave`."""

    def __init__(self):
        self._entered, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._entered.wait(60)

    def _run(self):
        with one_thread():
            self._entered.set()
            self._leave.wait(60)

    def leave(self):
        self._leave.set()
        self._thread.join(60)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_last_of_two_overlapping_threads_restores_the_former_limit(threads, order):
    users = [Inside(), Inside()]
    seen = [threads()]
    for k in order:
        users[k].leave()
        seen.append(threads())
    assert seen == [1, 1, THREADS]


def test_nested_blocks_and_exceptions_restore_it_once(threads):
    with pytest.raises(ZeroDivisionError), one_thread():
        with one_thread():
            pass
        assert threads() == 1
        raise ZeroDivisionError
    assert threads() == THREADS


def test_a_thread_that_could_not_enter_is_not_counted(threads, monkeypatch):
    def fail(self, **options):
        raise RuntimeError("no such library")

    with monkeypatch.context() as patch:
        patch.setattr(threadpoolctl.ThreadpoolController, "limit", fail)
        with pytest.raises(RuntimeError), one_thread():
            pass
    with one_thread():
        assert threads() == 1
    assert threads() == THREADS


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_process_does_not_count_the_threads_that_it_lacks(threads):
    """A child that is forked inside a block stays inside it."""
    other = Inside()
    assert forked(threads) == THREADS
    with one_thread():
        assert forked(threads) == 1
    other.leave()
    assert threads() == THREADS


def forked(answer) -> int:
    child = os.fork()
    if not child:
        os._exit(answer())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
