"""The BLAS that numpy brings: which it is, and one thread of it while the engine runs.

Lanes are the parallelism, and threads of BLAS must not compete with them.
"""

import os
import threading
from contextlib import contextmanager

import threadpoolctl


class _Users:
    """Who needs BLAS on one thread: the first one sets that, the last one restores what was set before.

    The number is one for the whole process, so users in other threads are counted together.
    """

    def __init__(self):
        self._lock, self._threads, self._limits = threading.RLock(), {}, None
        os.register_at_fork(
            before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._forked
        )

    def enter(self, user: object) -> None:
        with self._lock:
            self._threads[user] = threading.get_ident()
            if self._limits is None:
                _take_control()
                self._limits = threadpoolctl.threadpool_limits(limits=1, user_api="blas")

    def leave(self, user: object) -> None:
        with self._lock:
            self._threads.pop(user, None)
            if self._threads or self._limits is None:
                return
            limits, self._limits = self._limits, None
            _take_control()
            limits.restore_original_limits()
            _take_control()

    def _forked(self) -> None:
        """Of all threads, a child process has the one that forked it."""
        mine = threading.get_ident()
        try:
            for user in [user for user, thread in self._threads.items() if thread != mine]:
                self.leave(user)
        finally:
            self._lock.release()


_USERS = _Users()


@contextmanager
def one_thread():
    """BLAS runs on one thread inside the block, also inside overlapping ones of other threads.

    What was set before is restored when the last of them ends.
    """
    user = object()
    try:
        _USERS.enter(user)
        yield
    finally:
        _USERS.leave(user)


def _take_control() -> None:
    """From 3.8 on, threadpoolctl obeys the thread that set a number first, and ignores any other silently."""
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear:
        clear(force=True)


def library() -> dict | None:
    """What threadpoolctl knows of it, None without one. OpenBLAS names the processor of its kernels there."""
    import numpy  # noqa: F401 - brings its BLAS along

    rows = threadpoolctl.threadpool_info()
    return next((row for row in rows if row.get("user_api") == "blas"), None)
