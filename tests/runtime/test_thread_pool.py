"""Threads beside the caller: all work is done, errors arrive, an interrupt of the caller harms nothing."""

import gc
import sys
import threading
from functools import partial

import pytest
from cases import each

from tinytrain.runtime.thread_pool import Workers


def test_the_caller_and_every_thread_work_at_once():
    workers, meet, done = Workers(3), threading.Barrier(4), []

    def work(k):
        meet.wait(100)  # nobody gets on unless all run at once
        done.append(k)

    for turn in range(5):
        workers.run([partial(work, k) for k in range(4)])
        assert sorted(done[4 * turn :]) == [0, 1, 2, 3]
    workers.close()


@each("threads", [0, 1, 2, 6])
def test_any_number_of_works_is_dealt_out_in_turn(threads):
    workers, who = Workers(threads), {}
    workers.run([partial(lambda k: who.setdefault(k, threading.get_ident()), k) for k in range(5)])
    workers.run([])
    workers.close()
    assert sorted(who) == [0, 1, 2, 3, 4]
    hands = threads + 1
    assert all((who[a] == who[b]) == (a % hands == b % hands) for a in who for b in who)
    assert who[0] == threading.get_ident()


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_reaches_the_caller_once_all_are_done_and_the_threads_work_on(bad):
    workers, done = Workers(2), []
    works = [lambda: done.append(1)] * 3
    works[bad] = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        workers.run(works)
    assert done == [1, 1]
    workers.run([lambda: done.append(2)] * 3)
    assert done == [1, 1, 2, 2, 2]
    workers.close()


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_what_is_loaded_ahead_is_taken_once_in_order_and_never_overtaken(threads):
    workers, held, seen = Workers(threads), [None], []

    def do(k):
        assert held[0] in (seen[-1][1], k + 1)  # the next may be there, but none behind it
        seen[-1] = (k, seen[-1][1])

    workers.run_ahead(20, partial(held.__setitem__, 0), lambda: seen.append((None, held[0])), do)
    workers.close()
    assert seen == [(k, k) for k in range(20)]


@pytest.mark.parametrize("threads", [0, 1])
def test_the_next_load_runs_beside_the_work(threads):
    workers, meet = Workers(threads), threading.Barrier(2)

    def run():
        def second(k):
            return meet.wait(100) if k == 1 else None

        workers.run_ahead(2, second, lambda: None, lambda k: second(k + 1))

    if threads:
        run()
    else:
        meet.abort()
        with pytest.raises(threading.BrokenBarrierError):
            run()
    workers.close()


@each("threads", [0, 1])
@each("bad", ["load", "do"])
@each("at", [0, 2, 4])
def test_an_error_in_loading_ahead_or_in_the_work_ends_both_and_reaches_the_caller(threads, bad, at):
    workers, done = Workers(threads), []

    def work(k):
        done.append(k)
        if (bad, at) == ("do", k):
            raise KeyboardInterrupt

    def load(k):
        return 1 / 0 if (bad, at) == ("load", k) else None

    with pytest.raises(KeyboardInterrupt if bad == "do" else ZeroDivisionError):
        workers.run_ahead(5, load, lambda: None, work)
    assert done == list(range(at + (bad == "do")))
    done.clear()
    workers.run_ahead(3, load if bad == "do" else (lambda k: None), lambda: None, done.append)
    assert done == [0, 1, 2]
    workers.close()


def test_closing_ends_the_threads_and_so_does_letting_go_of_them():
    class Holder:
        def __init__(self):
            self.workers = Workers(2)
            self.workers.run([self.nothing] * 3)

        def nothing(self):
            pass

    for close in (True, False):
        holder = Holder()
        threads = holder.workers._threads
        if close:
            holder.workers.close()
        del holder
        gc.collect()
        for thread in threads:
            thread.join(100)
            assert not thread.is_alive()


def test_no_lock_that_python_handles_lies_between_the_threads_and_their_caller():
    """Where an interrupt meets Python code that is about to release a lock, it stays locked."""
    workers, ran = Workers(2), set()
    sys.setprofile(
        lambda frame, event, argument: ran.add(frame.f_code.co_filename) if event == "call" else None
    )
    workers.run([int, int, int])
    sys.setprofile(None)
    workers.close()
    assert ran and all(name.endswith(("thread_pool.py", "test_thread_pool.py")) for name in ran)


@pytest.mark.parametrize("allowed", [0, 1])
def test_where_the_system_starts_no_more_threads_the_caller_does_their_part(allowed, monkeypatch):
    start, started = threading.Thread.start, []

    def refuse(thread):
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers, done = Workers(3), []
    workers.run([partial(done.append, k) for k in range(10)])
    workers.run_ahead(2, done.append, lambda: None, done.append)
    assert (
        len(started) == allowed and sorted(done[:10]) == list(range(10)) and sorted(done[10:]) == [0, 0, 1, 1]
    )
    workers.close()
