"""Threads that do a part of the work of each step beside the caller."""

import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread

import numpy as np


class Workers:
    """`count` threads that wait for work, until they are closed or nobody holds them any more.

    If the system starts no more threads (``TasksMax=``, ``ulimit -u``), there are fewer, and the caller does
    their part: that takes longer and gives the same bits.

    Between them and their caller lie only queues and locks written in C. Those that Python itself handles, as
    in `concurrent.futures`, stay locked for ever where an interrupt meets the caller while it lets go of one.
    """

    def __init__(self, count: int):
        self._given = [SimpleQueue() for _ in range(count)]
        self._done: SimpleQueue = SimpleQueue()
        self._end = weakref.finalize(self, _end, self._given)
        self._threads = [
            Thread(target=_serve, args=(given, self._done), name="worker", daemon=True)
            for given in self._given
        ]
        for started, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError:
                del self._given[started:], self._threads[started:]
                break

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Do all of `works`, dealt out in turn to caller and threads; raises what one of them raised."""
        hands = len(self._given) + 1
        for k, given in enumerate(self._given, 1):
            given.put(works[k::hands])
        try:
            for work in works[::hands]:
                work()
        finally:
            errors = [self._done.get() for _ in self._given]
        for error in errors:
            if error is not None:
                raise error

    def run_ahead(
        self, count: int, load: Callable[[int], None], take: Callable[[], None], do: Callable[[int], None]
    ) -> None:
        """For each k below `count`: load(k), take what was loaded, and do(k) with it, on the caller's thread.

        Another thread, if there is one, loads the next one from when this one was taken. Raises what one of
        them raised.
        """
        if not self._given:
            for k in range(count):
                load(k)
                take()
                do(k)
            return
        loaded, taken = SimpleQueue(), SimpleQueue()

        def load_all() -> None:
            try:
                for k in range(count):
                    load(k)
                    loaded.put(True)
                    if not taken.get():
                        break
            except BaseException:
                loaded.put(False)  # the caller waits for it
                raise

        def do_all() -> None:
            try:
                for k in range(count):
                    if not loaded.get():
                        break
                    take()
                    taken.put(True)
                    do(k)
            finally:
                taken.put(False)  # whoever loads may wait for it

        self.run([do_all, load_all])

    def close(self) -> None:
        """Let the threads end, after what they are at."""
        self._end()
        for thread in self._threads:
            thread.join()


def _serve(given: SimpleQueue, done: SimpleQueue) -> None:
    # Workers do not warn of overflow: the guard looks at every number.
    np.seterr(all="ignore")
    while (works := given.get()) is not None:
        done.put(_error_of(works))
        del works  # what waits for more work holds nobody


def _error_of(works: Sequence[Callable[[], None]]) -> BaseException | None:
    try:
        for work in works:
            work()
    except BaseException as error:  # it is the caller's to see
        return error
    return None


def _end(given: list[SimpleQueue]) -> None:
    for queue in given:
        queue.put(None)
