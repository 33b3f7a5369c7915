"""The BLAS that numpy brings: which it is, and one thread of it while the engine runs.

Lanes are the parallelism, and threads of BLAS must not compete with them.
"""

from contextlib import contextmanager

from threadpoolctl import threadpool_info, threadpool_limits


@contextmanager
def one_thread():
    """BLAS runs on one thread inside the block; what was set before is restored afterwards."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def library() -> dict | None:
    """What threadpoolctl knows of it, None without one. OpenBLAS names the processor of its kernels there."""
    import numpy  # noqa: F401 - brings its BLAS along

    return next((row for row in threadpool_info() if row.get("user_api") == "blas"), None)
