"""Runs what a log does not hold yet, and says beforehand how long that takes."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from tinytrain.meta.bench.episode import run_job
from tinytrain.meta.bench.jobs import Job, count_runs
from tinytrain.meta.bench.parallel import Workers, map_jobs
from tinytrain.meta.bench.sampler import Entry
from tinytrain.meta.run_log import Log
from tinytrain.pipeline.warmup import warm_up

Progress = Callable[[str, int, int, float | None], None]


def run_jobs(jobs: list[Job], log: Log, workers: Workers, progress: Progress) -> int:
    """Run the jobs, appending to the log as they finish; returns the number of records."""
    done, total = 0, count_runs(jobs)
    for records in map_jobs(run_job, jobs, workers):
        log.append(records)
        done += len(records)
        progress("runs", done, total, None)
    return done


class Kind(NamedTuple):
    """Runs that take about as long as each other."""

    label: str
    backbone: str
    sampler: str


def _kind(job: Job, entry: Entry) -> Kind:
    return Kind(*map(job.identity(entry).get, Kind._fields))


def recorded_seconds(records: Iterable[dict]) -> dict[Kind, float]:
    """Mean wall time of the records of each kind."""
    seconds = defaultdict(list)
    for record in records:
        seconds[Kind(*map(record.get, Kind._fields))].append(record["seconds"]["wall"])
    return {kind: sum(walls) / len(walls) for kind, walls in seconds.items()}


def estimate(jobs: list[Job], log: Log, progress: Progress) -> dict[Kind, tuple[int, float]]:
    """For every kind in `jobs` the runs that are left, and the seconds that one takes.

    These are as recorded in the log, else of one run, which then is in the log.
    """
    known = recorded_seconds(log.rows)
    left: dict[Kind, int] = defaultdict(int)
    missing: dict[Kind, Job] = {}
    for job in jobs:
        for entry in job.entries:
            kind = _kind(job, entry)
            left[kind] += 1
            if kind not in known:
                missing.setdefault(kind, replace(job, entries=(entry,)))
    if missing:
        warm_up()  # or the first run of each kind would be charged for loading the kernels that it uses
    for number, job in enumerate(missing.values(), 1):
        log.append(run_job(job))
        left[_kind(job, job.entries[0])] -= 1
        progress("measuring", number, len(missing), None)
    known = recorded_seconds(log.rows)
    return {kind: (runs, known[kind]) for kind, runs in left.items()}
