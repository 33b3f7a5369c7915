"""Threads beside the caller: all work is done, errors arrive, an interrupt of the caller harms nothing."""

import gc
import os
import random
import sys
import threading
import time
import weakref
from ctypes import c_int64
from functools import partial

import pytest
from cases import each

from tinytrain.kernels.dispatch.native_calls import join_native
from tinytrain.runtime import thread_pool
from tinytrain.runtime.thread_pool import Hand, Workers, cores


@pytest.fixture(params=["machine code", "Python"])
def turns(request, monkeypatch):
    """Who takes turns: Python does where machine code cannot be made."""
    if request.param == "Python":
        monkeypatch.setattr(thread_pool, "native_turns", lambda state: None)


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


@each("threads", [0, 1, 3])
@each("count", [0, 1, 2, 9])
@each("fewer", [0, 1])
def test_turns_are_taken_in_order_and_everything_is_done_once(turns, threads, count, fewer):
    """Also if the last one has fewer turns than the others."""
    workers, done, rng = Workers(threads), [], random.Random(0)

    def do(hand, k):
        hand.last = k == count - 1
        for turn in range(5 - fewer * hand.last):
            time.sleep(rng.random() / 1000)
            hand.begin_turn()
            done.append((turn, k))
            hand.end_turn()

    workers.in_turns([Hand() for _ in range(threads + 1)], count, do)
    workers.close()
    for turn in range(4):
        assert [k for t, k in done if t == turn] == list(range(count))
    if fewer and count > 1:
        before, last = ([n for n, (_, k) in enumerate(done) if k == count - back] for back in (2, 1))
        assert max(before) < min(last)


def test_one_is_in_a_later_turn_while_the_next_is_in_an_earlier_one(turns):
    workers, meet = Workers(1), threading.Barrier(2)

    def do(hand, k):
        for turn in range(2):
            hand.begin_turn()
            if turn + k == 1:
                meet.wait(100)  # nobody gets on unless both are here
            hand.end_turn()

    workers.in_turns([Hand(), Hand()], 2, do)
    workers.close()


def test_turns_and_the_calls_in_them_are_one_native_sequence():
    hand, before, left = Hand(), c_int64(2), []
    ((sequence, _),) = join_native([(hand.begin_turn, ()), (hand.end_turn, ())] * 3)
    own = hand.follow(before)
    other = threading.Thread(target=lambda: left.append(sequence()))
    other.start()
    while own.value < 2:
        time.sleep(1e-4)
    time.sleep(0.01)  # it looks again and again meanwhile
    assert own.value == 2 and not left
    before.value = 3
    other.join(100)
    assert own.value == 3 and left == [None]


@each("threads", [0, 1, 3])
@each("bad", [(3,), (2, 3), (0, 1, 2, 3), (3, 8)])
def test_of_several_errors_the_caller_gets_that_of_the_first(threads, bad):
    """Whenever they come."""
    workers = Workers(threads)

    def do(hand, k):
        time.sleep((k % 3 == 0) / 100)
        if k in bad:
            raise ValueError(k)

    with pytest.raises(ValueError) as caught:
        workers.in_turns([Hand() for _ in range(threads + 1)], 9, do)
    assert caught.value.args == bad[:1]
    workers.close()


@each("threads", [0, 1, 3])
@each("bad", [0, 1, 4])
def test_an_error_in_a_turn_reaches_the_caller_and_nobody_waits_for_it(turns, threads, bad):
    workers, done = Workers(threads), []

    def do(hand, k):
        hand.begin_turn()
        if k == bad:
            raise KeyboardInterrupt
        done.append(k)
        hand.end_turn()

    hands = [Hand() for _ in range(threads + 1)]
    with pytest.raises(KeyboardInterrupt):
        workers.in_turns(hands, 5, do)
    assert done == list(range(bad))
    done.clear()
    bad = None
    workers.in_turns(hands, 5, do)
    assert done == [0, 1, 2, 3, 4]
    workers.close()


@each(
    ("quotas", "found"),
    [
        ({"": "max 100000"}, 4),
        ({"": "150000 100000"}, 2),
        ({"": "900000 100000"}, 4),
        ({"a.slice/b.service": "5000 100000"}, 1),
        ({"a.slice": "250000 100000", "a.slice/b.service": "max 100000"}, 3),
        ({"other.slice": "5000 100000"}, 4),
        ({}, 4),
    ],
)
def test_cores_are_those_that_affinity_and_quotas_of_own_cgroups_leave(quotas, found, tmp_path, monkeypatch):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("1:name=systemd:/\n0::/a.slice/b.service\n")
    for group, quota in quotas.items():
        folder = tmp_path / "sys/fs/cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5, 9})
    assert cores(tmp_path) == found
    assert cores(tmp_path / "nothing") == 4


@each("threads", [0, 2])
def test_an_interrupt_comes_before_other_errors_and_no_error_keeps_what_workers_had(threads):
    class Held:
        pass

    def fail(hand, k, error):
        kept = Held()
        held.add(kept)
        hand.begin_turn()
        if k == 1:
            both.wait(100)
            raise error
        if k == 0:
            hand.end_turn()
            both.wait(100)
        raise ValueError

    for error in (KeyboardInterrupt, ValueError) if threads else (ValueError,):
        workers, held, both = Workers(threads), weakref.WeakSet(), threading.Barrier(2 if threads else 1)
        gc.disable()
        try:
            with pytest.raises(error):
                workers.in_turns([Hand() for _ in range(threads + 1)], 2, partial(fail, error=error))
            workers.close()
            assert not held
        finally:
            gc.enable()


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
    workers, hands, ran = Workers(2), [Hand() for _ in range(3)], set()
    sys.setprofile(
        lambda frame, event, argument: ran.add(frame.f_code.co_filename) if event == "call" else None
    )
    workers.run([int, int, int])
    workers.in_turns(hands, 9, lambda hand, k: (hand.begin_turn(), hand.end_turn()))
    sys.setprofile(None)
    workers.close()
    assert ran and all(name.endswith(("thread_pool.py", "code.py", "native_calls.py")) for name in ran)


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
    workers.in_turns([Hand() for _ in range(4)], 3, lambda hand, k: done.append(10 + k))
    assert len(started) == allowed and sorted(done) == list(range(13))
    workers.close()
