"""The arena over time as one SVG: bytes in use above, buffers as rectangles below."""

from tinytrain.base.svg import GRID, INK, PAPER, line, page, rectangle, text
from tinytrain.base.units import format_bytes
from tinytrain.firmware_sim.boards.timeline import Block, Timeline

WIDTH, LEFT, RIGHT, TOP, GAP = 1080, 74, 150, 58, 40
LIVE, MAP = 120, 380  # heights of the two panels
LETTER, LINE = 5.6, 12  # width of a letter and height of a line at a font size of 10
ALARM = "#aa0000"
COLOURS = {
    "activations": "#9fc5e8",
    "cached features": "#a8d5a2",
    "trained parameters": "#e8a87c",
    "gradients": "#f3c98b",
    "optimizer": "#e6b8d0",
    "head": "#d9d08f",
    "images": "#b9c4cf",
    "other": "#c9b8e8",
}


def plot(made: Timeline, title: str, limit: int) -> str:
    """SVG text. `limit` is the RAM that the board has for the arena."""
    inner, bottom = WIDTH - LEFT - RIGHT, TOP + LIVE + GAP + MAP
    top = limit if limit <= 1.5 * made.arena else made.arena
    points = made.live()
    most = max(size for _, size in points)
    note = (
        f"at most {format_bytes(most)} in use at once, arena {format_bytes(made.arena)}"
        f" ({most / made.arena:.0%}), board {format_bytes(limit)}"
    )

    def x(time: float) -> float:
        return LEFT + inner * time / len(made.stages)

    parts = [
        text(LEFT, 20, title, font_size=14, font_weight="bold"),
        text(LEFT, 38, note, font_size=12),
        *_scale(TOP + LIVE, LIVE, top),
        *_scale(bottom, MAP, top),
        _live(points, x, top),
        *(_block(block, x, bottom - MAP, top) for block in made.blocks),
        *_stages(made.stages, x, bottom),
        *_legend({block.kind for block in made.blocks}),
    ]
    if limit == top:
        at = bottom - MAP
        parts.append(line([(LEFT, at), (WIDTH - RIGHT, at)], ALARM, stroke_dasharray="6 4"))
        parts.append(text(WIDTH - RIGHT + 6, at + 4, "RAM of the board", fill=ALARM))
    return page(parts, WIDTH, bottom + 44, title, font_size=10)


def _scale(bottom: float, height: float, top: int) -> list[str]:
    """Lines and sizes at quarters of `top`."""
    parts = []
    for k in range(5):
        y = bottom - height * k / 4
        parts.append(line([(LEFT, y), (WIDTH - RIGHT, y)], GRID))
        parts.append(text(LEFT - 6, y + 4, format_bytes(top * k // 4), "end"))
    return parts


def _live(points: list[tuple[float, int]], x, top: int) -> str:
    """Bytes in use as a line of steps."""
    bottom, before = TOP + LIVE, TOP + LIVE
    steps = []
    for time, size in points:
        y = bottom - LIVE * size / top
        steps += [(x(time), before), (x(time), y)]
        before = y
    return line(steps, "#0072b2", stroke_width=1.2)


def _block(block: Block, x, ceiling: float, top: int) -> str:
    """A rectangle, with its name if there is room; offset 0 is at the bottom."""
    left, width = x(block.start), x(block.end) - x(block.start)
    height = MAP * block.nbytes / top
    y = ceiling + MAP - MAP * (block.offset + block.nbytes) / top
    hint = f"{block.name}: {block.nbytes:,} bytes at {block.offset:,}"
    look = {"stroke": PAPER, "stroke_width": 0.4, "fill": COLOURS[block.kind]}
    shape = rectangle(left, y, width, height, hint, **look)
    if height < LINE + 1 or width < LETTER * len(block.name) + 6:
        return shape
    return shape + text(left + 3, y + 10, block.name)


def _stages(stages: tuple[str, ...], x, bottom: float) -> list[str]:
    parts = []
    for k, name in enumerate(stages):
        if k:
            parts.append(line([(x(k), TOP), (x(k), bottom)], INK, stroke_width=0.6))
        parts.append(text(x(k + 0.5), bottom + 16, name, "middle", font_size=12))
    steps = "one pass of the kernel calls of each stage, in order; embed and backward take turns"
    return [*parts, text(LEFT, bottom + 34, steps)]


def _legend(kinds: set[str]) -> list[str]:
    parts, left = [], WIDTH - RIGHT + 10
    for k, kind in enumerate(kind for kind in COLOURS if kind in kinds):
        y = TOP + LIVE + GAP + 22 + 18 * k
        parts.append(rectangle(left, y, 12, 12, fill=COLOURS[kind]))
        parts.append(text(left + 18, y + 10, kind, font_size=12))
    return parts
