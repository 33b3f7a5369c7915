"""The plots of a report: accuracy against a cost, accuracy against shots, time per stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinytrain.meta.bench.drawing import (
    LEFT,
    LINE,
    WIDTH,
    across,
    frame,
    image,
    labels,
    mark,
    text,
    upwards,
)
from tinytrain.meta.training.curve import COLOURS, INK


@dataclass(frozen=True)
class Point:
    """A method: its cost, its accuracy in per cent and the half-width of its interval."""

    name: str
    cost: float
    accuracy: float
    half: float = 0.0


def pareto(points: Sequence[Point]) -> list[Point]:
    """Points that no other one beats in both cost and accuracy, by rising cost."""
    front: list[Point] = []
    for point in sorted(points, key=lambda p: (p.cost, -p.accuracy)):
        if not front or point.accuracy > front[-1].accuracy:
            front.append(point)
    return front


def _accuracy_axis(points: Sequence[Point]):
    return upwards(min(p.accuracy - p.half for p in points), max(p.accuracy + p.half for p in points))


def against_memory(points: Sequence[Point]) -> str:
    x = across(min(p.cost for p in points), max(p.cost for p in points), log=True)
    ticks = [(value, f"{value / 1e6:g} MB") for value in x.ticks()]
    return _scatter(points, x, ticks, "memory: measured arena (logarithmic)")


def against_macs(points: Sequence[Point]) -> str:
    """`cost` in per cent of the full backward pass."""
    x = across(0, max(p.cost for p in points))
    ticks = [(value, f"{value:g} %") for value in x.ticks()]
    return _scatter(points, x, ticks, "backward MACs per pseudo-query, share of a full backward pass")


def _scatter(points: Sequence[Point], x, ticks, x_title: str) -> str:
    y = _accuracy_axis(points)
    parts = frame(x, y, x_title, "accuracy, %", ticks)
    front = "L".join(f"{x.at(p.cost):.1f} {y.at(p.accuracy):.1f}" for p in pareto(points))
    parts.append(f'<path d="M{front}" fill="none" stroke="{INK}" stroke-dasharray="5 4" opacity="0.5"/>')
    for k, p in enumerate(points):
        colour, at = COLOURS[k % len(COLOURS)], x.at(p.cost)
        ends = y.at(p.accuracy - p.half), y.at(p.accuracy + p.half)
        parts.append(
            f'<path d="M{at:.1f} {ends[0]:.1f}V{ends[1]:.1f}" stroke="{colour}" stroke-width="1.5"/>'
        )
        parts.append(mark(k, at, y.at(p.accuracy)))
    parts += labels([(x.at(p.cost), y.at(p.accuracy)) for p in points], [p.name for p in points])
    return image(parts, f"accuracy against {x_title}")


def against_shots(lines: Mapping[str, Sequence[Point]]) -> str:
    """`cost` of a point is its number of shots."""
    points = [p for line in lines.values() for p in line]
    shots = sorted({p.cost for p in points})
    x, y = across(0, max(shots)), _accuracy_axis(points)
    parts = frame(x, y, "images per class (shots)", "accuracy, %", [(s, f"{s:g}") for s in shots])
    for k, line in enumerate(lines.values()):
        colour = COLOURS[k % len(COLOURS)]
        path = "L".join(f"{x.at(p.cost):.1f} {y.at(p.accuracy):.1f}" for p in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for p in line:
            at = x.at(p.cost)
            ends = y.at(p.accuracy - p.half), y.at(p.accuracy + p.half)
            parts.append(f'<path d="M{at:.1f} {ends[0]:.1f}V{ends[1]:.1f}" stroke="{colour}"/>')
            parts.append(f'<circle cx="{at:.1f}" cy="{y.at(p.accuracy):.1f}" r="3.5" fill="{colour}"/>')
    ends = [(x.at(line[-1].cost), y.at(line[-1].accuracy)) for line in lines.values()]
    return image([*parts, *labels(ends, list(lines))], "accuracy against shots")


ROW, NAMES = 26, 190  # height of a bar, width of the names beside the bars


def time_per_stage(methods: Mapping[str, Mapping[str, float]]) -> str:
    """Seconds by method and stage, as stacked bars."""
    stages = list(dict.fromkeys(stage for seconds in methods.values() for stage in seconds))
    colours = {stage: COLOURS[k % len(COLOURS)] for k, stage in enumerate(stages)}
    longest = max(sum(seconds.values()) for seconds in methods.values()) or 1.0
    scale = (WIDTH - NAMES - 90) / longest
    parts, x = [], float(LEFT)
    for stage in stages:  # the legend
        parts.append(f'<rect x="{x:.0f}" y="12" width="12" height="12" fill="{colours[stage]}"/>')
        parts.append(text(x + 17, 22, stage))
        x += 34 + 7.5 * len(stage)
    for row, (name, seconds) in enumerate(methods.items()):
        y, x = 42 + ROW * row, float(NAMES)
        parts.append(text(NAMES - 8, y + LINE - 3, name, "end"))
        for stage, spent in seconds.items():
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{spent * scale:.1f}" height="{LINE}"'
                f' fill="{colours[stage]}"/>'
            )
            x += spent * scale
        parts.append(text(x + 6, y + LINE - 3, f"{sum(seconds.values()):.2f} s"))
    return image(parts, "seconds per stage", 42 + ROW * len(methods) + 10)
