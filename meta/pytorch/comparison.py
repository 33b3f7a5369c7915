"""One comparison of this engine and PyTorch: both sides timed in turn, and the line that shows it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from tinytrain.base.units import format_count
from tinytrain.meta.pytorch.timing import Timing, alternately

# PyTorch / ours that must be reached, on one thread and on more.
TARGETS = {"a: batch 1": (2, 2), "a: batch 25": (1.2, 1.2), "b": (1.5, 1.5), "c1": (4, 3), "c2": (1.3, 1.3)}


@dataclass(frozen=True)
class Row:
    """One comparison: seconds and executed MACs of each side.

    `how` says which variant each side ran; `slower` holds the variants that were passed over.
    """

    name: str
    threads: int
    seconds: dict[str, Timing]
    macs: dict[str, int]
    how: dict[str, str]
    slower: dict[str, Timing]

    @property
    def target(self) -> float | None:
        limits = TARGETS.get(self.name)
        return limits[min(self.threads, 2) - 1] if limits else None

    def ratio(self, which: str = "minimum") -> float | None:
        """PyTorch / ours, of "minimum", "median" or "cpu" seconds."""
        if "PyTorch" not in self.seconds:
            return None
        theirs, ours = (getattr(self.seconds[side], which) for side in ("PyTorch", "ours"))
        return theirs / ours if ours else None

    def json(self) -> dict:
        ratios = {"ratio": self.ratio(), "ratio_of_medians": self.ratio("median"), "target": self.target}
        return {**asdict(self), **ratios, "ratio_of_cpu": self.ratio("cpu")}

    def line(self) -> str:
        cells = [f"{self.name:<22}{self.threads:>3}"]
        for side in ("ours", "PyTorch"):
            t = self.seconds.get(side)
            cells.append(f"{t.minimum * 1e3:>10.2f} ({t.median * 1e3:>8.2f})" if t else f"{'-':>21}")
        ratio, wanted = self.ratio(), f">= {self.target}" if self.target else ""
        cells.append(f"{ratio:>7.2f} {wanted:<7}" if ratio else f"{'-':>7} {'':<7}")
        cpu = self.ratio("cpu") if self.threads == 1 else None
        cells.append(f"{cpu:>6.2f}" if cpu else f"{'':>6}")
        cells.append(" / ".join(format_count(self.macs[s]) for s in self.seconds))
        notes = [f"{side}: {text}" for side, text in self.how.items() if text]
        notes += [f"{name}: {t.minimum * 1e3:.2f}" for name, t in self.slower.items()]
        cells.append("; ".join(notes))
        return "  ".join(cells)


def compare(name, threads, repeats, ours: dict[str, Callable], theirs: dict[str, Callable], macs) -> Row:
    """Each side in the fastest of its variants, then both in turn."""
    how, sides, slower = {}, {}, {}
    for side, choices in (("ours", ours), ("PyTorch", theirs)):
        if not choices:
            continue
        tried = alternately(choices, 3)
        how[side] = min(tried, key=lambda name: tried[name].minimum)
        sides[side] = choices[how[side]]
        slower |= {f"{side} {name}": t for name, t in tried.items() if name != how[side]}
    return Row(name, threads, alternately(sides, repeats), macs, how, slower)
