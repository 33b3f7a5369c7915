"""Learning rates with equal effort: the same factors and the same episodes for every policy.

The packs are no targets of the matrix. Where the factor with the best mean accuracy is the first or the last,
the grid of this policy goes on by one factor, at most `EXTENSIONS` times: a poor grid must not decide a
comparison. If the best is at the edge even then, the file of rates says so.

A policy leaves the rates that it has (factor 1) only for a factor whose lead over them, paired by episode, is
clear of zero: with few episodes the highest of several means is mostly luck.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from tinytrain.base.errors import UsageError
from tinytrain.meta.bench.matrix import Cell, Matrix
from tinytrain.meta.bench.rates import Rates, TunedRate
from tinytrain.meta.bench.statistics import paired, stratified
from tinytrain.policies.own import given_policy

EXTENSIONS = 2
Grids = Mapping[str, Sequence[float]]  # factors of every label, rising


def trial_label(label: str, scale: float) -> str:
    return f"{label} x{scale:g}"


def scales(grids: Grids) -> dict[str, float]:
    """Rate scale of every trial."""
    return {trial_label(label, scale): scale for label, grid in grids.items() for scale in grid}


LEAST_GRID = 4  # factors: an optimum inside, and how sharp it is


def same_grid(matrix: Matrix, grid: Iterable[float]) -> dict[str, tuple[float, ...]]:
    """The grid for every label that trains anything and has rates of its own.

    Raises UsageError if there is none, and for a grid of fewer than 4 different factors.
    """
    grid = tuple(sorted(set(grid)))
    if len(grid) < LEAST_GRID:
        raise UsageError("usage", f"{len(grid)} different factors; give at least {LEAST_GRID}")
    labels = [
        x
        for x in matrix.labels
        if given_policy(matrix.entry(x).policy).trains and not matrix.settings(x).rate_of
    ]
    if not labels:
        raise UsageError(
            "usage",
            f"none of the {len(matrix.labels)} policies has learning rates of its own; name another",
        )
    return dict.fromkeys(labels, grid)


def trials(matrix: Matrix, grids: Grids, episodes: int | None = None) -> Matrix:
    """The matrix of all trials."""
    settings = {
        trial_label(label, scale): replace(matrix.settings(label), policy=matrix.entry(label).policy)
        for label, grid in grids.items()
        for scale in grid
    }
    t = matrix.tuning
    count = min(t.episodes, episodes or t.episodes)
    cell = Cell((t.backbone,), t.packs, tuple(settings), count, t.sampler)
    return replace(matrix, name=f"{matrix.name} tuning", cells=(cell,), policies=settings)


def chosen(trial: Matrix, records: Iterable[dict], grids: Grids, code: str) -> Rates:
    """What every policy takes, and its best factor; the smaller one of equals."""
    everything, accuracy = tuple(sorted({scale for grid in grids.values() for scale in grid})), {}
    for record in records:
        by_pack = accuracy.setdefault(record["label"], {}).setdefault(record["pack"], {})
        by_pack[record["episode"]] = record["accuracy"]["after"]
    policies = {}
    for label, grid in grids.items():
        found = {scale: accuracy[trial_label(label, scale)] for scale in grid}
        means = {
            scale: stratified([list(p.values()) for p in packs.values()]).mean
            for scale, packs in found.items()
        }
        best = max(grid, key=means.__getitem__)
        shown = tuple(round(means[scale], 4) if scale in means else None for scale in everything)
        policies[label] = TunedRate(taken(found, means), best, best in (grid[0], grid[-1]), shown)
    (cell,) = trial.cells
    return Rates(cell.backbones[0], cell.packs, cell.sampler.name, cell.episodes, code, everything, policies)


def taken(found: Mapping[float, Mapping[str, Mapping[int, float]]], means: Mapping[float, float]) -> float:
    """The factor that a policy takes, from the accuracy by factor, pack and episode, and its means.

    The best of those clear above 1; 1 if there is none; the best of all if 1 was not tried.
    """
    if 1 not in found:
        return max(means, key=means.__getitem__)
    ahead = {}
    for scale, packs in found.items():
        lead = stratified([paired(episodes, found[1][pack]) for pack, episodes in packs.items()])
        if lead.mean > 0 and lead.clear_of_zero():
            ahead[scale] = means[scale]
    return max(ahead, key=ahead.__getitem__) if ahead else 1.0


def extended(grids: Grids, found: Rates) -> dict[str, tuple[float, ...]]:
    """The grids with one factor more beyond every optimum at an edge, in the ratio of the last two there."""
    wider = {}
    for label, grid in grids.items():
        wider[label] = tuple(grid)
        if found.policies[label].edge and found.policies[label].best == grid[0]:
            wider[label] = (grid[0] * grid[0] / grid[1], *grid)
        elif found.policies[label].edge:
            wider[label] = (*grid, grid[-1] * grid[-1] / grid[-2])
    return wider


def facts(rates: Rates) -> dict:
    """The rates as JSON values."""
    return {name: asdict(rates)[name] for name in ("grid", "policies")}


def table(rates: Rates) -> str:
    """Accuracy in per cent by policy and factor; the best starred, twice at the edge; > is taken."""
    width = max(len(label) for label in ("policy", *rates.policies))
    packs = " and ".join(rates.packs)
    lines = [f"{rates.backbone} on {packs}, {rates.sampler}, {rates.episodes} episodes each", ""]
    lines.append(f"{'policy':<{width}}" + "".join(f"{'x' + format(scale, 'g'):>9}" for scale in rates.grid))
    for label, row in rates.policies.items():
        star = "**" if row.edge else "*"
        cells = (
            ""
            if mean is None
            else f"{'>' if scale == row.scale else ''}{100 * mean:.1f}{star if scale == row.best else ''}"
            for scale, mean in zip(rates.grid, row.accuracy, strict=True)
        )
        lines.append(f"{label:<{width}}" + "".join(f"{cell:>9}" for cell in cells))
    if any(row.edge for row in rates.policies.values()):
        lines += [
            "",
            "** the best is at the edge of the grid: the optimum may lie beyond; give a wider --grid",
        ]
    return "\n".join(lines)
