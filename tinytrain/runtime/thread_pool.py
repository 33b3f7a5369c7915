"""Threads that do a part of the work of each step beside the caller."""

import os
import time
import weakref
from collections.abc import Callable, Sequence
from ctypes import addressof, c_int64
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import numpy as np

from tinytrain.kernels.dispatch.code import BEFORE, NEEDED, OWN
from tinytrain.kernels.dispatch.native_calls import native_turns

# How many turns are over of what has failed and of what is done; ENTIRE of them must be over where all of its
# work must.
GIVEN_UP, ENTIRE, ALL = -1, 2**62, 2**63 - 1


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
        following.put((0, c_int64(ALL)))  # the next k, and how many turns of k - 1 are over

        def serve(hand: Hand) -> None:
            k, over = 0, c_int64()
            try:
                while True:
                    k, before = following.get()
                    over = hand.follow(before)
                    following.put((k + 1, over))
                    if k >= count:
                        return
                    do(hand, k)
                    over.value = ALL
            except BaseException as error:
                following.put((count, over))  # nobody may wait for what is not done
                over.value = GIVEN_UP
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
    """One of those that work at once. `begin_turn` and `end_turn` enclose what it does in turn with others.

    They are machine code where that can be made, so that calls of kernels and turns run as one sequence.
    """

    def __init__(self):
        self._state = (c_int64 * 4)()
        self.follow(c_int64(ALL))  # nobody
        if native := native_turns(self._state):
            self.begin_turn, self.end_turn = native

    def follow(self, before: c_int64) -> c_int64:
        """Come after the one that counts its turns in `before`; returns where this one counts its own."""
        self._before, self._over = before, c_int64()
        self._state[BEFORE], self._state[OWN] = addressof(before), addressof(self._over)
        self.last = False
        return self._over

    @property
    def last(self) -> bool:
        """Whether its turns begin when the one before is done with all of its work."""
        return self._state[NEEDED] >= ENTIRE

    @last.setter
    def last(self, value: bool) -> None:
        self._state[NEEDED] = ENTIRE if value else 1

    def begin_turn(self) -> None:
        """Wait for the same turn of the one before. Raises RuntimeError if that has given up."""
        while self._before.value < self._state[NEEDED]:
            if self._before.value == GIVEN_UP:
                raise RuntimeError("the one before has given up")
            time.sleep(1e-5)

    def end_turn(self) -> None:
        self._state[NEEDED] += 1
        self._over.value += 1


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
