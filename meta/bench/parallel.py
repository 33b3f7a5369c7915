"""Jobs on one process, on several, or on a cluster; each worker computes on one thread.

Which process does a job never changes its records, so a log is the same whatever ran it, but for the order.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tinytrain.base.errors import UsageError
from tinytrain.base.extras import install

IDLE = 20  # seconds after which a worker whose run was killed goes away
BATCH = 25  # jobs per worker and call if a backend cannot hand back results one by one


@contextmanager
def _processes(joblib, jobs: int, address: str | None):
    if address:
        raise UsageError("usage", f"--scheduler {address} goes with --parallel dask or ray, not with loky")
    with joblib.parallel_config(
        "loky", n_jobs=jobs, inner_max_num_threads=1, idle_worker_timeout=IDLE, initializer=_leave_interrupts
    ):
        yield True


def _leave_interrupts() -> None:
    """A terminal interrupts every process of a run; the one that started the workers also stops them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _dask(joblib, jobs: int, address: str | None):
    distributed = _imported("dask.distributed", "pip install distributed")
    local = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
    client = distributed.Client(address) if address else distributed.Client(**local)
    with client, joblib.parallel_config("dask", n_jobs=jobs):
        yield False


@contextmanager
def _ray(joblib, jobs: int, address: str | None):
    ray = _imported("ray", "pip install ray")
    _imported("ray.util.joblib", "pip install ray").register_ray()
    with (
        ray.init(address=address, num_cpus=None if address else jobs),
        joblib.parallel_config("ray", n_jobs=jobs),
    ):
        yield False


# Name -> context of joblib, the number of jobs and an address; it yields whether results can be streamed.
BACKENDS = {"loky": _processes, "dask": _dask, "ray": _ray}


def _imported(module: str, remedy: str):
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(
            "package-missing", f"{module} is not installed; run {remedy}, or give --jobs 1"
        ) from error


@dataclass(frozen=True)
class Workers:
    """How many processes, and by which joblib backend at which address."""

    jobs: int = 1
    backend: str = "loky"
    address: str | None = None


def map_jobs(function: Callable, items: list, workers: Workers) -> Iterator:
    """`function` of every item, in any order, as many at once. Raises what it raises, and UsageError."""
    jobs, backend = workers.jobs, workers.backend
    if jobs == 1 and backend == "loky":
        yield from map(function, items)
        return
    joblib = _imported("joblib", install("host"))
    with BACKENDS[backend](joblib, jobs, workers.address) as streams:
        if streams:
            tasks = (joblib.delayed(function)(item) for item in items)
            yield from joblib.Parallel(return_as="generator_unordered")(tasks)
            return
        for first in range(0, len(items), BATCH * jobs):
            batch = items[first : first + BATCH * jobs]
            yield from joblib.Parallel()(joblib.delayed(function)(item) for item in batch)
