"""Learning rates with equal effort: the same factors and the same episodes for every policy, on one pack.

The pack is no target of the matrix. A policy gets the factor with the best mean accuracy; where that is the
first or the last of the grid, the optimum may lie beyond it, and the file of rates says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tinytrain.meta.bench.matrix import Cell, Matrix, PolicySettings
from tinytrain.meta.bench.rates import Rates, TunedRate


def trial_label(label: str, scale: float) -> str:
    return f"{label} x{scale:g}"


def scales(labels: Iterable[str], grid: Iterable[float]) -> dict[str, float]:
    """Rate scale of every trial."""
    grid = tuple(grid)
    return {trial_label(label, scale): scale for label in labels for scale in grid}


def trials(
    matrix: Matrix, grid: Sequence[float], episodes: int | None = None
) -> tuple[Matrix, tuple[str, ...]]:
    """The matrix of all trials, and the labels that are tuned: those that train anything."""
    rows = {label: matrix.policies.get(label, PolicySettings()) for label in matrix.labels}
    labels = tuple(label for label, row in rows.items() if row.tuned and (row.policy or label) != "none")
    settings = {
        trial_label(label, scale): replace(rows[label], policy=rows[label].policy or label)
        for label in labels
        for scale in grid
    }
    t = matrix.tuning
    cell = Cell((t.backbone,), (t.pack,), tuple(settings), min(t.episodes, episodes or t.episodes), t.sampler)
    return replace(matrix, name=f"{matrix.name} tuning", cells=(cell,), policies=settings), labels


def chosen(
    trial: Matrix, records: Iterable[dict], labels: Iterable[str], grid: Sequence[float], code: str
) -> Rates:
    """The best factor of every policy; the smaller one of equals."""
    grid, accuracy = sorted(grid), {}
    for record in records:
        accuracy.setdefault(record["label"], []).append(record["accuracy"]["after"])
    policies = {}
    for label in labels:
        means = [float(np.mean(accuracy[trial_label(label, scale)])) for scale in grid]
        best = int(np.argmax(means))
        policies[label] = TunedRate(grid[best], best in (0, len(grid) - 1), tuple(round(m, 4) for m in means))
    (cell,) = trial.cells
    return Rates(
        cell.backbones[0], cell.packs[0], cell.sampler.name, cell.episodes, code, tuple(grid), policies
    )


def facts(rates: Rates) -> dict:
    """The rates as JSON values."""
    return {
        "grid": list(rates.grid),
        "policies": {
            label: {"scale": row.scale, "edge": row.edge, "accuracy": list(row.accuracy)}
            for label, row in rates.policies.items()
        },
    }


def table(rates: Rates) -> str:
    """Accuracy in per cent by policy and factor; the chosen one is starred, one at the edge twice."""
    width = max(len(label) for label in ("policy", *rates.policies))
    lines = [f"{rates.backbone} on {rates.pack}, {rates.sampler}, {rates.episodes} episodes each", ""]
    lines.append(f"{'policy':<{width}}" + "".join(f"{'x' + format(scale, 'g'):>9}" for scale in rates.grid))
    for label, row in rates.policies.items():
        star = "**" if row.edge else "*"
        cells = (
            f"{100 * mean:.1f}{star if scale == row.scale else ''}"
            for scale, mean in zip(rates.grid, row.accuracy, strict=True)
        )
        lines.append(f"{label:<{width}}" + "".join(f"{cell:>9}" for cell in cells))
    if any(row.edge for row in rates.policies.values()):
        lines += [
            "",
            "** the best is at the edge of the grid: the optimum may lie beyond; give a wider --grid",
        ]
    return "\n".join(lines)
