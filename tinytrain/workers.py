"""Threads that do a part of the work of each step beside the caller."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread

import numpy as np


class Workers:
    """`count` threads that wait for work.

    Between them and their caller lie only queues and locks written in C. Those that Python itself handles, as
    in `concurrent.futures`, stay locked for ever where an interrupt meets the caller while it lets go of one.
    """

    def __init__(self, count: int):
        self._given = [SimpleQueue() for _ in range(count)]
        self._done: SimpleQueue = SimpleQueue()
        self._threads = [
            Thread(target=self._serve, args=(given,), name="lane", daemon=True) for given in self._given
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, given: SimpleQueue) -> None:
        # Lanes do not warn of overflow: the guard looks at every number.
        np.seterr(all="ignore")
        for work in iter(given.get, None):
            try:
                work()
                self._done.put(None)
            except BaseException as error:  # it is the caller's to see
                self._done.put(error)

    def start(self, works: Sequence[Callable[[], None]]) -> None:
        """Give each thread one of `works`, at most as many as there are threads."""
        for given, work in zip(self._given, works, strict=False):
            given.put(work)

    def finish(self, count: int) -> None:
        """Wait for `count` of them; raises what one of them raised."""
        for error in [self._done.get() for _ in range(count)]:
            if error is not None:
                raise error

    def close(self) -> None:
        """Let the threads end, after what they are at."""
        for given in self._given:
            given.put(None)
        for thread in self._threads:
            thread.join()
