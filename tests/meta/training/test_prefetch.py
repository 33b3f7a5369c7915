"""The thread that makes batches ahead: in order, not too far, errors where they belong, an end that ends."""

import sys
import threading
import time

import pytest

from tinytrain.meta.training.batches import AHEAD, Prefetch


def test_batches_come_in_order_and_no_more_than_asked_are_made_ahead():
    made = []
    ahead = Prefetch(lambda number: made.append(number) or number, 3, 40)
    for number in range(3, 40):
        assert ahead.get() == number
        assert len(made) <= number - 3 + 2 + AHEAD
    ahead.close()
    assert made == list(range(3, 40)) and not ahead.thread.is_alive()


def test_what_making_a_batch_raised_is_raised_where_it_is_asked_for():
    ahead = Prefetch(lambda number: 1 / (number - 1), 0, 4)
    assert ahead.get() == -1
    with pytest.raises(ZeroDivisionError):
        ahead.get()
    assert ahead.get() == 1
    ahead.close()


def test_closing_waits_for_the_batch_at_work_and_for_no_other():
    begin, at_work, made = threading.Event(), threading.Event(), []

    def make(number):
        begin.wait(100)
        at_work.set()
        while not ahead.closed:
            time.sleep(0.001)
        made.append(number)

    ahead = Prefetch(make, 0, 100)
    begin.set()
    at_work.wait(100)
    ahead.close()
    assert made == [0] and not ahead.thread.is_alive()


def test_no_lock_that_python_handles_lies_between_the_thread_and_its_caller():
    """Where an interrupt meets Python code that is about to release a lock, it stays locked."""
    ahead, ran = Prefetch(int, 0, 9), set()
    sys.setprofile(
        lambda frame, event, argument: ran.add(frame.f_code.co_filename) if event == "call" else None
    )
    try:
        ahead.get()
    finally:
        sys.setprofile(None)
    ahead.close()
    files = {name.rpartition("/")[2] for name in ran}
    assert "batches.py" in files and not files & {"threading.py", "queue.py", "_base.py", "thread.py"}
