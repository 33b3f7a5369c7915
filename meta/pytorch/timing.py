"""Fair timing on a machine that is not quiet: sides take turns, the minimum and the median are kept.

CPU time is kept as well: on one thread it leaves out what other processes took.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

SETTLE = 0.02  # seconds of rest before each sample: worker threads of the other side stop spinning
LEAST = 0.02  # seconds that a sample lasts at least


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, minimum and median of `samples`; `cpu` is the least CPU time of all threads."""

    minimum: float
    median: float
    samples: int
    cpu: float | None = None

    @classmethod
    def of(cls, samples: Sequence[tuple[float, float | None]]) -> "Timing":
        """From (seconds, CPU seconds or None) of each sample."""
        walls, cpus = zip(*samples, strict=True)
        return cls(min(walls), median(walls), len(walls), None if None in cpus else min(cpus))


def _sample(work: Callable[[], object], count: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        work()
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


def alternately(sides: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Timing]:
    """Each side `repeats` times in turn (A B A B), after one call each that is not counted.

    Short work is repeated until a sample lasts long enough to be measured.
    """
    counts = {}
    for name, work in sides.items():
        work()
        counts[name] = max(1, int(LEAST / max(_sample(work, 1)[0], 1e-6)))
    found = defaultdict(list)
    for _ in range(repeats):
        for name, work in sides.items():
            time.sleep(SETTLE)
            found[name].append(_sample(work, counts[name]))
    return {name: Timing.of(samples) for name, samples in found.items()}


def in_turn(
    sides: Mapping[str, Callable[[], dict[str, float]]], repeats: int
) -> dict[str, dict[str, Timing]]:
    """Like `alternately`, for long work that returns the seconds of its own parts; adds the part "total"."""
    found = {name: defaultdict(list) for name in sides}
    for _ in range(repeats):
        for name, work in sides.items():
            time.sleep(SETTLE)
            wall, cpu = time.perf_counter(), time.process_time()
            parts = {part: (seconds, None) for part, seconds in work().items()}
            parts["total"] = time.perf_counter() - wall, time.process_time() - cpu
            for part, sample in parts.items():
                found[name][part].append(sample)
    return {name: {part: Timing.of(s) for part, s in parts.items()} for name, parts in found.items()}


def matmul_ceiling(repeats: int = 40) -> float:
    """Multiply-accumulates per second of a float32 product of two 1024 x 1024 matrices."""
    x, y = np.full((1024, 1024), 0.5, np.float32), np.empty((1024, 1024), np.float32)
    return 1024**3 / alternately({"": lambda: np.matmul(x, x, out=y)}, repeats)[""].minimum


@dataclass(frozen=True)
class KernelRow:
    """One kind of kernel in one pass over `images` images."""

    kernel: str
    part: str
    calls: int
    seconds: float
    macs: int

    @property
    def rate(self) -> float:
        return self.macs / self.seconds

    def json(self) -> dict:
        return {**asdict(self), "rate": self.rate}


def kernel_table(bound: Sequence[tuple], calls: Sequence, repeats: int = 30) -> list[KernelRow]:
    """Time per kind of kernel, slowest first: the bound calls run in order, each one timed by itself.

    A call counts with its fastest run.
    """
    best = [float("inf")] * len(bound)
    for _ in range(repeats):
        for k, (kernel, args) in enumerate(bound):
            start = time.perf_counter()
            kernel(*args)
            best[k] = min(best[k], time.perf_counter() - start)
    groups = defaultdict(list)
    for call, seconds in zip(calls, best, strict=True):
        groups[call.kernel, call.part].append((seconds, call.macs))
    rows = [
        KernelRow(kernel, part, len(g), sum(s for s, _ in g), sum(m for _, m in g))
        for (kernel, part), g in groups.items()
    ]
    return sorted(rows, key=lambda row: -row.seconds)


def kernel_lines(tables: Mapping[str, list[KernelRow]], ceiling: float) -> list[str]:
    """The tables for people."""
    lines = []
    for name, rows in tables.items():
        total = sum(row.seconds for row in rows)
        lines += ["", f"{name}: {total * 1e3:.2f} ms in kernels; matmul 1024^3: {ceiling / 1e9:.1f} GMAC/s"]
        for row in rows:
            rate = f"{row.rate / 1e9:>7.1f} GMAC/s" if row.macs else ""
            fraction = f"{row.seconds / total:>6.1%}{row.seconds * 1e6:>9.0f} us"
            lines.append(
                f"  {row.kernel + ' (' + row.part + ')':<40}{row.calls:>5} calls {fraction} {rate}".rstrip()
            )
    return lines
