"""Threads beside the caller: all work is done, errors arrive, an interrupt of the caller harms nothing."""

import sys
import threading

import pytest

from tinytrain.workers import Workers


def test_every_thread_gets_its_work_and_the_caller_waits_for_all():
    workers, meet, done = Workers(3), threading.Barrier(4), []

    def work(k):
        meet.wait(10)  # nobody gets on unless all run at once
        done.append(k)

    for turn in range(5):
        workers.start([lambda k=k: work(k) for k in range(3)])
        meet.wait(10)
        workers.finish(3)
        assert sorted(done[3 * turn :]) == [0, 1, 2]
    workers.close()


def test_an_error_reaches_the_caller_once_all_are_done_and_the_threads_work_on():
    workers, done = Workers(2), []
    workers.start([lambda: 1 / 0, lambda: done.append(1)])
    with pytest.raises(ZeroDivisionError):
        workers.finish(2)
    workers.start([lambda: done.append(2)])
    workers.finish(1)
    assert done == [1, 2]
    workers.close()


def test_closing_waits_for_work_that_nobody_asked_for():
    before, done, go = threading.active_count(), [], threading.Event()
    workers = Workers(2)
    workers.start([go.wait, lambda: done.append(go.wait(10))])
    threading.Timer(0.1, go.set).start()
    workers.close()
    assert done == [True] and threading.active_count() <= before + 1


def test_no_lock_that_python_handles_lies_between_the_threads_and_their_caller():
    """Where an interrupt meets Python code that is about to release a lock, it stays locked."""
    workers, ran = Workers(2), set()
    sys.setprofile(
        lambda frame, event, argument: ran.add(frame.f_code.co_filename) if event == "call" else None
    )
    workers.start([int, int])
    workers.finish(2)
    sys.setprofile(None)
    workers.close()
    assert ran and all(name.endswith(("workers.py", "test_workers.py")) for name in ran)


def test_without_threads_there_is_nothing_to_wait_for():
    workers = Workers(0)
    workers.start([])
    workers.finish(0)
    workers.close()
