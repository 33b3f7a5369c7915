"""The BLAS of numpy: its description, and a limit of one thread while workers run.

Workers are the parallelism; threads of BLAS must not compete with them.
"""

import functools
import threading
from contextlib import contextmanager
from pathlib import Path

import threadpoolctl

from tinytrain.base.locks import held_over_forks


class _Users:
    """Users of BLAS on one thread. The first one sets the limit, the last one restores the former value.

    The limit holds for the whole process, so users in all threads are counted together.
    """

    def __init__(self):
        self._threads, self._limits = {}, None
        self._lock = held_over_forks(self._forked)

    def enter(self, user: object) -> None:
        with self._lock:
            self._threads[user] = threading.get_ident()
            if self._limits is None:
                _take_control()
                self._limits = _controller().limit(limits=1, user_api="blas")

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
        """Remove the users of threads that the child process does not have: all but the forking one."""
        mine = threading.get_ident()
        for user in [user for user, thread in self._threads.items() if thread != mine]:
            self.leave(user)


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    """Of the libraries that are loaded now: to look for them takes as long as to embed an image."""
    return threadpoolctl.ThreadpoolController()


_USERS = _Users()


@contextmanager
def one_thread():
    """BLAS runs on one thread inside the block; blocks of several threads may overlap.

    The former number of threads is restored when the last block ends.
    """
    user = object()
    try:
        _USERS.enter(user)
        yield
    finally:
        _USERS.leave(user)


def _take_control() -> None:
    """From 3.8 on, threadpoolctl obeys only the thread that set a limit first; reset that."""
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear:
        clear(force=True)


def library() -> dict | None:
    """The entry of threadpoolctl for the BLAS of numpy, or None; OpenBLAS names the processor of its kernels.

    Another package may have loaded one of its own (SciPy has). numpy's lies in its folder or beside it, or
    is the only one.
    """
    import numpy

    home = Path(numpy.__file__).parent
    rows = [row for row in threadpoolctl.threadpool_info() if row.get("user_api") == "blas"]
    own = [row for row in rows if {home, home.with_name("numpy.libs")} & set(Path(row["filepath"]).parents)]
    return next(iter(own or rows), None)
