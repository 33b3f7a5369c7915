"""The arena over time as one SVG: bytes in use above, buffers as rectangles below. Needs no library."""

from xml.sax.saxutils import escape

from tinytrain.base.units import format_bytes
from tinytrain.firmware_sim.boards.timeline import Block, Timeline

WIDTH, LEFT, RIGHT, TOP, GAP = 1080, 74, 150, 58, 40
LIVE, MAP = 120, 380  # heights of the two panels
LETTER, LINE = 5.6, 12  # width of a letter and height of a line at a font size of 10
INK, GRID, PAPER = "#222222", "#dddddd", "#ffffff"
COLOURS = {
    "inner values": "#9fc5e8",
    "cached features": "#a8d5a2",
    "trained numbers": "#e8a87c",
    "gradients": "#f3c98b",
    "optimizer": "#e6b8d0",
    "head": "#d9d08f",
    "pictures": "#b9c4cf",
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
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 44}"'
        f' viewBox="0 0 {WIDTH} {bottom + 44}" font-family="sans-serif" font-size="10" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{bottom + 44}" fill="{PAPER}"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LEFT}" y="38" font-size="12">{escape(note)}</text>',
        *_scale(TOP + LIVE, LIVE, top),
        *_scale(bottom, MAP, top),
        *_live(points, x, top),
        *(_block(block, x, bottom - MAP, top) for block in made.blocks),
        *_stages(made.stages, x, bottom),
        *_legend({block.kind for block in made.blocks}),
    ]
    if limit == top:
        at = bottom - MAP
        parts.append(f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="#aa0000" stroke-dasharray="6 4"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 6}" y="{at + 4}" fill="#aa0000">RAM of the board</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _scale(bottom: float, height: float, top: int) -> list[str]:
    """Lines and sizes at quarters of `top`."""
    parts = []
    for k in range(5):
        y = bottom - height * k / 4
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
        size = format_bytes(top * k // 4)
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{size}</text>')
    return parts


def _live(points: list[tuple[float, int]], x, top: int) -> list[str]:
    """Bytes in use as a line of steps."""
    path, bottom = f"M{x(points[0][0]):.1f} {TOP + LIVE}", TOP + LIVE
    for time, size in points:
        path += f"H{x(time):.1f}V{bottom - LIVE * size / top:.1f}"
    return [f'<path d="{path}" fill="none" stroke="#0072b2" stroke-width="1.2"/>']


def _block(block: Block, x, ceiling: float, top: int) -> str:
    """A rectangle, with its name where there is room; offset 0 is at the bottom."""
    left, width = x(block.start), x(block.end) - x(block.start)
    height = MAP * block.nbytes / top
    y = ceiling + MAP - MAP * (block.offset + block.nbytes) / top
    text = f"{block.name}: {block.nbytes:,} bytes at {block.offset:,}"
    shape = (
        f'<rect x="{left:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" stroke="{PAPER}"'
        f' stroke-width="0.4" fill="{COLOURS[block.kind]}"><title>{escape(text)}</title></rect>'
    )
    if height < LINE + 1 or width < LETTER * len(block.name) + 6:
        return shape
    return f'{shape}<text x="{left + 3:.2f}" y="{y + 10:.2f}">{escape(block.name)}</text>'


def _stages(stages: tuple[str, ...], x, bottom: float) -> list[str]:
    parts = []
    for k, name in enumerate(stages):
        if k:
            parts.append(f'<path d="M{x(k):.1f} {TOP}V{bottom}" stroke="{INK}" stroke-width="0.6"/>')
        parts.append(
            f'<text x="{x(k + 0.5):.1f}" y="{bottom + 16}" font-size="12" text-anchor="middle">'
            f"{escape(name)}</text>"
        )
    steps = "one pass of the kernel calls of each stage, in order; embed and backward take turns"
    return [*parts, f'<text x="{LEFT}" y="{bottom + 34}">{steps}</text>']


def _legend(kinds: set[str]) -> list[str]:
    parts, left = [], WIDTH - RIGHT + 10
    for k, kind in enumerate(kind for kind in COLOURS if kind in kinds):
        y = TOP + LIVE + GAP + 22 + 18 * k
        parts.append(f'<rect x="{left}" y="{y}" width="12" height="12" fill="{COLOURS[kind]}"/>')
        parts.append(f'<text x="{left + 18}" y="{y + 10}" font-size="12">{escape(kind)}</text>')
    return parts
