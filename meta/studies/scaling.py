"""What an adaptation costs against its shots and its classes: processor seconds, executed MACs, arena.

    python -m tinytrain.meta.studies.scaling --backbone mcunet-5fps --out scaling.jsonl
    python -m tinytrain.meta.studies.scaling --summary --out results/scaling.jsonl --plot scaling.svg

Shots vary at five classes, and classes at five shots, at each budget. Every adaptation makes all 40 steps,
whatever its images are like, has no queries, and runs on one thread. Seconds are those of the processor, the
least of some repeats: other work on the machine only adds to them. A step looks at 50 images at the most, so
each image beyond these costs less. To each side of that a line is fitted, and the summary says how far the
farthest cost is from its line.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tinytrain.base.files import write_bytes
from tinytrain.base.svg import COLOURS, line, page
from tinytrain.base.units import parse_bytes
from tinytrain.meta.axes import HEIGHT, WIDTH, Frame, across, labels, mark, upwards
from tinytrain.meta.studies.study import (
    Study,
    decoded_episode,
    grid,
    number,
    numbers,
    option,
    plot_option,
    table,
    values_of,
    with_recipes,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy
from tinytrain.runtime.device import Device

COUNTS = "5,6,8,10,12,15,20,30,50"
FIXED = 5  # classes while shots vary, shots while classes vary
SERIES = {"shots": ("shots", "way"), "classes": ("way", "shots")}  # keys of what varies, and of what stays


@dataclass(frozen=True)
class Cost:
    """A figure of a row, what it is called, and its unit."""

    key: str
    title: str
    unit: float


COSTS = (
    Cost("seconds", "processor time, s", 1),
    Cost("executed", "executed MACs, G", 1e9),
    Cost("arena", "arena, MB", 1e6),
)


def jobs(args) -> list[dict]:
    """A job for every task of both series, with every budget."""
    tasks = dict.fromkeys([*((FIXED, n) for n in args.counts), *((n, FIXED) for n in args.counts)])
    return [
        job | {"way": way, "shots": shots}
        for job in grid(args, budget=args.budgets.split(","))
        for way, shots in tasks
    ]


def all_steps(policy: str, steps: int = Recipe.steps) -> Policy:
    """The policy of this name, which then makes as many steps for all tasks."""
    return with_recipes(find_policy(policy), lambda found: replace(found, steps=steps))


def run_job(network: Network, dataset, args, budget: str, way: int, shots: int) -> dict:
    episode = decoded_episode(network, dataset, args, way=way, shots=shots, queries=0)
    policy, limit, seconds = all_steps(args.policy), Budget(parse_bytes(budget)), []
    for _ in range(args.repeats):
        start = time.process_time()
        report = adapt(network, episode, limit, policy, args.seed, Device(threads=1), force=True)
        seconds.append(time.process_time() - start)
    facts = report.to_json()
    return {
        "seconds": min(seconds),
        "executed": facts["macs"]["total"],
        "arena": facts["memory"]["arena"],
        "step": report.plan.resources.step_support,
        "cached": report.plan.resources.sets,
    }


@dataclass(frozen=True)
class Fit:
    """A line ``start + slope * x``, and the largest relative difference of a cost from it."""

    start: float
    slope: float
    farthest: float

    def at(self, x: float) -> float:
        return self.start + self.slope * x


def fitted(points: Sequence[tuple[float, float]]) -> Fit | None:
    """The line with the least sum of squared relative differences; None for fewer than three points."""
    if len(points) < 3:
        return None
    x, y = np.array(points, float).T
    start, slope = np.linalg.lstsq(np.stack([1 / y, x / y], 1), np.ones_like(y), rcond=None)[0]
    return Fit(start, slope, float(abs(1 - (start + slope * x) / y).max()))


def series(rows: list[dict], budget: str, varies: str) -> list[dict]:
    """Rows of one budget of which only `varies` ("shots" or "classes") differs, in rising order."""
    key, fixed = SERIES[varies]
    mine = [row for row in rows if row["budget"] == budget and row[fixed] == FIXED]
    return sorted(mine, key=lambda row: row[key])


def points(rows: list[dict], varies: str, cost: Cost, whole: bool | None = None) -> list[tuple[float, float]]:
    """(shots or classes, cost) of the rows, of those whose steps look at the `whole` support or do not."""
    key = SERIES[varies][0]
    some = (row for row in rows if whole in (None, row["way"] * row["shots"] <= row["step"]))
    return [(row[key], row[cost.key] / cost.unit) for row in some]


SHOWN = (5, 10, 20, 50)
SIDES = "each image up to 50", "farthest", "each image beyond", "farthest"
HEADINGS = ("budget", "varies", "cost", *SIDES, *map(str, SHOWN))


def summary(rows: list[dict], plot: Path | None = None) -> list[str]:
    """For each series and cost: slopes per image, how far the farthest cost is from its line, some costs."""
    body = []
    for budget, varies in pairs(rows):
        mine = series(rows, budget, varies)
        for cost in COSTS:
            every = dict(points(mine, varies, cost))
            cells = [budget, varies, cost.title]
            for whole in (True, False):
                fit = fitted(points(mine, varies, cost, whole))
                cells += [f"{fit.slope / FIXED:.3g}", f"{fit.farthest:.1%}"] if fit else ["-", "-"]
            body.append([*cells, *(f"{every[n]:.3g}" if n in every else "-" for n in SHOWN)])
    if plot:
        write_bytes(plot, drawing(rows).encode())
    return table(HEADINGS, body)


def pairs(rows: list[dict]) -> list[tuple[str, str]]:
    """Each budget with what varies."""
    return [(budget, varies) for budget in values_of(rows, "budget") for varies in SERIES]


def drawing(rows: list[dict]) -> str:
    """One plot above the other for each cost: a curve for each series, lines fitted to it."""
    names, parts = pairs(rows), []
    for place, cost in enumerate(COSTS):
        parts += _plot(rows, names, cost, Frame(place * HEIGHT))
    return page(parts, WIDTH, HEIGHT * len(COSTS), "cost of an adaptation against its shots and its classes")


def _plot(rows: list[dict], names: Sequence[tuple[str, str]], cost: Cost, frame: Frame) -> list[str]:
    found = {name: points(series(rows, *name), name[1], cost) for name in names}
    every = [point for curve in found.values() for point in curve]
    x = across(0, max(n for n, _ in every))
    y = upwards(0, max(c for _, c in every), frame)
    ticks = [(n, f"{n:g}") for n in x.ticks()]
    parts = frame.axes(x, y, f"shots of {FIXED} classes, or classes of {FIXED} shots", cost.title, ticks)
    for place, (name, curve) in enumerate(found.items()):
        for whole in (True, False):
            part = points(series(rows, *name), name[1], cost, whole)
            if fit := fitted(part):
                ends = [(x.at(n), y.at(fit.at(n))) for n in (part[0][0], part[-1][0])]
                parts.append(line(ends, COLOURS[place % len(COLOURS)], stroke_width=1.5))
        parts += [mark(place, x.at(n), y.at(c)) for n, c in curve]
    last = [(x.at(curve[-1][0]), y.at(curve[-1][1])) for curve in found.values()]
    return parts + labels(last, [f"{varies}, {budget}" for budget, varies in names], frame)


OPTIONS = (
    option("--counts", COUNTS, "shots, and classes, with commas; default: %(default)s", type=numbers),
    option("--budgets", "1MB,64MB", "with commas; default: %(default)s"),
    number("--repeats", 3, "of every adaptation; default: %(default)s"),
    option("--policy", "tinytrain"),
    number("--seed", 7, least=0),
    plot_option("also draw the log (.svg)"),
)
main = Study(
    "scaling", __doc__, "mcunet-5fps", "tiny_imagenet200", run_job, summary, OPTIONS, ("policy", "seed"),
    jobs, shown=("plot",),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
