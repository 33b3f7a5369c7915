"""Fair timing on a machine that is not quiet: sides take turns, the minimum and the median are kept.

CPU time is kept as well: on one thread it leaves out what other processes took.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

SETTLE = 0.02  # seconds of rest before each sample: worker threads of the other side stop spinning
LEAST = 0.02  # seconds that a sample lasts at least
LONG = 1.0  # seconds of work that needs no second call to be known well enough
SIDES = ("ours", "PyTorch")
Side = tuple[str, str]  # one of SIDES, and which variant of it


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


def _sample(work: Callable[[], object], count: int = 1) -> dict[str, tuple[float, float | None]]:
    """Seconds of the parts that `work` names itself, if any, and of its "total"."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        found = work()
    total = (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count
    parts = found if isinstance(found, dict) else {}
    return {**{part: (seconds, None) for part, seconds in parts.items()}, "total": total}


def in_turn(sides: Mapping, repeats: int) -> dict:
    """Timings by part of each side, which run `repeats` times in turn (A B A B), after calls that compile.

    A side is a function of nothing, which may return seconds of its own parts. Short work is repeated until
    a sample lasts long enough to be measured.
    """
    counts, found = {}, {name: defaultdict(list) for name in sides}
    for name, work in sides.items():
        known = _sample(work)["total"][0]
        counts[name] = 1 if known > LONG else max(1, int(LEAST / max(_sample(work)["total"][0], 1e-6)))
    for _ in range(repeats):
        for name, work in sides.items():
            time.sleep(SETTLE)
            for part, sample in _sample(work, counts[name]).items():
                found[name][part].append(sample)
    return {name: {part: Timing.of(s) for part, s in parts.items()} for name, parts in found.items()}


@dataclass(frozen=True)
class Row:
    """One comparison: seconds of each side, which of its variants that is, and the slower variants."""

    name: str
    threads: int
    seconds: dict[str, Timing]
    how: dict[str, str]
    slower: dict[str, Timing]

    @classmethod
    def of(cls, name: str, threads: int, times: Mapping[Side, dict[str, Timing]], part="total") -> "Row":
        """Each side in the fastest of its variants, by one `part` of their times."""
        order = sorted(times, key=lambda side: times[side][part].minimum)
        how = {side: next(v for s, v in order if s == side) for side in SIDES if side in dict(order)}
        seconds = {side: times[side, variant][part] for side, variant in how.items()}
        slower = {f"{s} {v}": times[s, v][part] for s, v in order if how[s] != v}
        return cls(name, threads, seconds, how, slower)

    def ratio(self, which: str = "minimum") -> float | None:
        """PyTorch / ours, of "minimum", "median" or "cpu" seconds."""
        if "PyTorch" not in self.seconds:
            return None
        theirs, ours = (getattr(self.seconds[side], which) for side in ("PyTorch", "ours"))
        return theirs / ours if ours else None

    def json(self) -> dict:
        ratios = {"ratio": self.ratio(), "ratio_of_medians": self.ratio("median")}
        return {**asdict(self), **ratios, "ratio_of_cpu": self.ratio("cpu")}

    def line(self) -> str:
        cells = [f"{self.name:<22}{self.threads:>3}"]
        for side in SIDES:
            t = self.seconds.get(side)
            cells.append(f"{t.minimum * 1e3:>10.2f} ({t.median * 1e3:>8.2f})" if t else f"{'-':>21}")
        cpu = self.ratio("cpu") if self.threads == 1 else None
        cells += [f"{ratio:>7.2f}" if ratio else f"{'':>7}" for ratio in (self.ratio(), cpu)]
        notes = [f"{side}: {text}" for side, text in self.how.items() if text]
        notes += [f"{name}: {t.minimum * 1e3:.2f}" for name, t in self.slower.items()]
        return "  ".join([*cells, "; ".join(notes)])
