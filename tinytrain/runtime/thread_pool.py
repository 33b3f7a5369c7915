"""Threads that do a part of the work of each step beside the caller."""

import os
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import numpy as np


def cores(root: Path = Path("/")) -> int:
    """Processors that this process may use: those that ``taskset`` and the quotas of its cgroups leave it.

    `root` is where ``proc`` and ``sys`` lie. Of cgroups, version 2 is read.
    """
    allowed, top = len(os.sched_getaffinity(0)), root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    place = top / own.lstrip("/")
    for folder in (place, *place.parents):
        try:
            quota, period = (folder / "cpu.max").read_text().split()
            allowed = min(allowed, -(-int(quota) // int(period)))
        except (OSError, ValueError):  # no such file, or no quota
            pass
        if folder == top:
            break
    return max(1, allowed)


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
            errors = [error for _ in self._given if (error := self._done.get()) is not None]
            error = None
        _raise_first(errors)

    def in_turns(self, hands: Sequence["Hand"], count: int, do: Callable[["Hand", int], None]) -> None:
        """do(hand, k) for each k below `count`, the next one by whichever of the `hands` is free.

        What lies between `begin_turn` and `end_turn` of a hand is done for k after the same turn of k - 1 is
        over. If k has other turns than k - 1, they begin when k - 1 is done: see `Hand.last`. Raises what
        `do` raised; if it did so for several k, that of the first of them, but an interrupt before all else.
        """
        following, failed = SimpleQueue(), []
        following.put((0, None))  # the next k, and where it hears of what k - 1 has done

        def serve(hand: Hand) -> None:
            k, hand.after = 0, SimpleQueue()
            try:
                while True:
                    k, hand.before = following.get()
                    hand.after, hand.last = SimpleQueue(), False
                    following.put((k + 1, hand.after))
                    if k >= count:
                        return
                    do(hand, k)
                    hand.after.put(None)
            except BaseException as error:
                following.put((count, None))  # nobody may wait for what is not done
                hand.after.put(False)
                if not isinstance(error, _GivenUpError):
                    failed.append((k, error))

        self.run([partial(serve, hand) for hand in hands])
        failed.sort(key=lambda pair: (isinstance(pair[1], Exception), pair[0]))  # an interrupt first
        errors = [error for _, error in failed]
        failed.clear()
        _raise_first(errors)

    def close(self) -> None:
        """Let the threads end, after what they are at."""
        self._end()
        for thread in self._threads:
            thread.join()


def _raise_first(errors: list[BaseException]) -> None:
    """Raise the first, if there is one. No frame holds it then: a cycle would keep what workers had."""
    if errors:
        error = errors[0]
        try:
            raise error
        finally:
            errors.clear()
            del error


class Hand:
    """One of those that work at once: `before` says what the one before has done, `after` what it has done.

    True stands for a turn, None for all of its work, False for an error. If `last`, its turns begin when the
    one before is done with all of its work.
    """

    before: SimpleQueue | None
    after: SimpleQueue
    last: bool

    def begin_turn(self) -> None:
        while self.before is not None:
            done = self.before.get()
            if done is False:
                raise _GivenUpError
            if done is None:
                self.before = None
            elif not self.last:
                break

    def end_turn(self) -> None:
        self.after.put(True)


class _GivenUpError(Exception):
    """Whoever was before has raised an error, which the caller gets."""


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
