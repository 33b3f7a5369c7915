"""The plots of a report: accuracy against a cost, accuracy against shots, time per stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tinytrain.base.svg import COLOURS, INK, element, line, page, rectangle, text
from tinytrain.meta.axes import FRAME, HEIGHT, LEFT, LINE, WIDTH, Axis, across, labels, mark, upwards


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


def _ends(p: Point) -> tuple[float, float]:
    """The interval of the accuracy, as far as there are such accuracies."""
    return max(0.0, p.accuracy - p.half), min(100.0, p.accuracy + p.half)


def _accuracy_axis(points: Sequence[Point]) -> Axis:
    """With some room at both ends, and nothing below 0 % or above 100 %."""
    axis = upwards(min(_ends(p)[0] for p in points), max(_ends(p)[1] for p in points))
    return replace(axis, low=max(0.0, axis.low), high=min(100.0, axis.high))


def against_memory(points: Sequence[Point]) -> str:
    x = across(min(p.cost for p in points), max(p.cost for p in points), log=True)
    ticks = [(value, f"{value / 1e6:g} MB") for value in x.ticks()]
    return _scatter(points, x, ticks, "memory: measured arena (logarithmic)")


def against_macs(points: Sequence[Point]) -> str:
    """`cost` in per cent of the full backward pass."""
    x = across(0, max(p.cost for p in points))
    ticks = [(value, f"{value:g} %") for value in x.ticks()]
    return _scatter(points, x, ticks, "backward MACs per pseudo-query, fraction of a full backward pass")


def against_seconds(points: Sequence[Point]) -> str:
    """`cost` in seconds that were given, `accuracy` in points above a head alone."""
    x = across(min(p.cost for p in points), max(p.cost for p in points), log=True)
    ends = [end for p in points for end in (p.accuracy - p.half, p.accuracy + p.half)]
    y, x_title = upwards(min(0.0, *ends), max(ends)), "seconds given (logarithmic)"
    ticks = [(p.cost, f"{p.cost:g} s") for p in points]
    parts = FRAME.axes(x, y, x_title, "points above the head alone", ticks)
    parts.append(line(_places(points, x, y), COLOURS[0], stroke_width=2))
    for p in points:
        places = [(x.at(p.cost), y.at(p.accuracy + sign * p.half)) for sign in (-1, 1)]
        parts.append(line(places, COLOURS[0], stroke_width=1.5))
        parts.append(element("circle", cx=x.at(p.cost), cy=y.at(p.accuracy), r=3.5, fill=COLOURS[0]))
    return page(parts, WIDTH, HEIGHT, f"accuracy against {x_title}")


def _scatter(points: Sequence[Point], x: Axis, ticks, x_title: str) -> str:
    y = _accuracy_axis(points)
    parts = FRAME.axes(x, y, x_title, "accuracy, %", ticks)
    parts.append(line(_places(pareto(points), x, y), INK, stroke_dasharray="5 4", opacity=0.5))
    for k, p in enumerate(points):
        parts.append(_interval(p, x, y, COLOURS[k % len(COLOURS)]))
        parts.append(mark(k, x.at(p.cost), y.at(p.accuracy)))
    parts += labels(_places(points, x, y), [p.name for p in points])
    return page(parts, WIDTH, HEIGHT, f"accuracy against {x_title}")


def _places(points: Sequence[Point], x: Axis, y: Axis) -> list[tuple[float, float]]:
    return [(x.at(p.cost), y.at(p.accuracy)) for p in points]


def _interval(p: Point, x: Axis, y: Axis, colour: str) -> str:
    return line([(x.at(p.cost), y.at(end)) for end in _ends(p)], colour, stroke_width=1.5)


def against_shots(lines: Mapping[str, Sequence[Point]]) -> str:
    """`cost` of a point is its number of shots."""
    points = [p for line in lines.values() for p in line]
    shots = sorted({p.cost for p in points})
    x, y = across(0, max(shots)), _accuracy_axis(points)
    parts = FRAME.axes(x, y, "images per class (shots)", "accuracy, %", [(s, f"{s:g}") for s in shots])
    for k, found in enumerate(lines.values()):
        colour, places = COLOURS[k % len(COLOURS)], _places(found, x, y)
        parts.append(line(places, colour, stroke_width=2))
        parts += [_interval(p, x, y, colour) for p in found]
        parts += [element("circle", cx=left, cy=top, r=3.5, fill=colour) for left, top in places]
    ends = [_places(found, x, y)[-1] for found in lines.values()]
    return page([*parts, *labels(ends, list(lines))], WIDTH, HEIGHT, "accuracy against shots")


ROW, NAMES = 26, 190  # height of a bar, width of the names beside the bars


def time_per_stage(methods: Mapping[str, Mapping[str, float]]) -> str:
    """Seconds by method and stage, as stacked bars."""
    stages = list(dict.fromkeys(stage for seconds in methods.values() for stage in seconds))
    colours = {stage: COLOURS[k % len(COLOURS)] for k, stage in enumerate(stages)}
    longest = max(sum(seconds.values()) for seconds in methods.values()) or 1.0
    scale = (WIDTH - NAMES - 90) / longest
    parts, x = [], float(LEFT)
    for stage in stages:  # the legend
        parts += [rectangle(x, 12, 12, 12, fill=colours[stage]), text(x + 17, 22, stage)]
        x += 34 + 7.5 * len(stage)
    for row, (name, seconds) in enumerate(methods.items()):
        y, x = 42 + ROW * row, float(NAMES)
        parts.append(text(NAMES - 8, y + LINE - 3, name, "end"))
        for stage, spent in seconds.items():
            parts.append(rectangle(x, y, spent * scale, LINE, fill=colours[stage]))
            x += spent * scale
        parts.append(text(x + 6, y + LINE - 3, f"{sum(seconds.values()):.2f} s"))
    return page(parts, WIDTH, 42 + ROW * len(methods) + 10, "seconds per stage")
