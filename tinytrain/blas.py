"""Holds BLAS to one thread while the engine runs: lanes are the parallelism, and they must not compete."""

from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread():
    """BLAS runs on one thread inside the block; what was set before is restored afterwards."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield
