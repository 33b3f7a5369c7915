"""Axes, marks and labels of the plots as SVG text. Labels stand in the right margin and never overlap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinytrain.base.svg import COLOURS, GRID, INK, element, line, rectangle, round_steps, text

WIDTH, PLOT, LEFT, RIGHT, TOP, BOTTOM = 780, 300, 64, 240, 20, 48
HEIGHT = TOP + PLOT + BOTTOM
LINE = 16  # pixels from one label to the next


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` onto pixels `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values inside the range, at most about eight."""
        if not self.log:
            return round_steps(self.low, self.high)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        wide = math.log10(self.high / self.low) > 3
        found = [m * 10.0**d for d in decades for m in ((1,) if wide else (1, 2, 5))]
        inside = [value for value in found if self.low <= value <= self.high]
        return inside if len(inside) > 2 else round_steps(self.low, self.high)


@dataclass(frozen=True)
class Frame:
    """Where a plot lies in its drawing: `above` is how many pixels are above it and its margin."""

    above: float = 0

    left, right = LEFT, WIDTH - RIGHT

    @property
    def top(self) -> float:
        return self.above + TOP

    @property
    def bottom(self) -> float:
        return self.above + TOP + PLOT

    def axes(
        self, x: Axis, y: Axis, x_title: str, y_title: str, x_ticks: Sequence[tuple[float, str]]
    ) -> list[str]:
        """Grid lines, numbers and titles of both axes."""
        parts, left, right, top, bottom = [], self.left, self.right, self.top, self.bottom
        for value in y.ticks():
            parts.append(line([(left, y.at(value)), (right, y.at(value))], GRID))
            parts.append(text(left - 7, y.at(value) + 4, f"{value:g}", "end"))
        for value, label in x_ticks:
            parts.append(line([(x.at(value), bottom), (x.at(value), bottom + 5)], INK))
            parts.append(text(x.at(value), bottom + 18, label, "middle"))
        parts.append(line([(left, top), (left, bottom), (right, bottom)], INK))
        parts.append(text((left + right) / 2, bottom + 38, x_title, "middle"))
        middle = (top + bottom) / 2
        return [*parts, text(16, middle, y_title, "middle", transform=f"rotate(-90 16 {middle:.0f})")]


FRAME = Frame()


def across(low: float, high: float, log: bool = False) -> Axis:
    """The horizontal axis, with some room at both ends."""
    if log:
        return Axis(low / 1.3, high * 1.3, FRAME.left, FRAME.right, True)
    room = 0.04 * (high - low) or 1.0
    return Axis(low - room, high + room, FRAME.left, FRAME.right)


def upwards(low: float, high: float, frame: Frame = FRAME) -> Axis:
    room = 0.06 * (high - low) or 1.0
    return Axis(low - room, high + room, frame.bottom, frame.top)


def spread(wanted: Sequence[float], low: float, high: float, gap: float = LINE) -> list[float]:
    """Positions near `wanted`, at least `gap` apart, from `low` on; up to `high` as far as there is room."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [max(low, wanted[i]) for i in order]
    for k in range(1, len(placed)):
        placed[k] = max(placed[k], placed[k - 1] + gap)
    if placed and placed[-1] > high:
        placed[-1] = max(high, low + gap * (len(placed) - 1))
        for k in range(len(placed) - 2, -1, -1):
            placed[k] = min(placed[k], placed[k + 1] - gap)
    at = [0.0] * len(wanted)
    for place, i in zip(placed, order, strict=True):
        at[i] = place
    return at


def mark(number: int, x: float, y: float) -> str:
    """A point in the colour of method `number`: discs first, squares once the colours come round again."""
    colour, turn = COLOURS[number % len(COLOURS)], number // len(COLOURS)
    if turn % 2:
        return rectangle(x - 4, y - 4, 8, 8, fill=colour)
    return element("circle", cx=x, cy=y, r=4.5, fill=colour)


def labels(anchors: Sequence[tuple[float, float]], names: Sequence[str], frame: Frame = FRAME) -> list[str]:
    """Names in the right margin, each with a thin line to its point."""
    at, parts, edge = spread([y for _, y in anchors], frame.top + 6, frame.bottom), [], frame.right + 14
    for k, (anchor, name) in enumerate(zip(anchors, names, strict=True)):
        colour = COLOURS[k % len(COLOURS)]
        parts.append(line([anchor, (edge - 3, at[k])], colour, stroke_width=0.8, stroke_dasharray="1 3"))
        parts += [mark(k, edge + 5, at[k]), text(edge + 14, at[k] + 4, name)]
    return parts
