"""The curve of a run as one SVG: loss above, accuracies with their intervals below. Needs no library."""

from xml.sax.saxutils import escape

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP = 720, 220, 56, 200, 34, 46
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
INK, GRID = "#222222", "#dddddd"


def curve(rows: list[dict], title: str) -> str:
    """SVG text of the rows of a log; `left_out` is drawn solid, `held_out` dashed, the chosen step marked."""
    lines = {"loss": [(r["step"], r["loss"], 0.0) for r in rows if r.get("loss") is not None]}
    accuracy: dict[str, list] = {}
    for row in rows:
        for kind in ("left_out", "held_out"):
            for name, (mean, half) in row.get(kind, {}).items():
                label = name if kind == "left_out" else f"{name} "
                accuracy.setdefault(label, []).append((row["step"], 100 * mean, 100 * half))
    last = max((r["step"] for r in rows), default=1) or 1
    chosen = max((r["step"] for r in rows if r.get("best")), default=None)
    height = 2 * (TOP + PANEL) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_panel(lines, TOP, last, f"{title}: training loss", chosen),
        *_panel(accuracy, 2 * TOP + PANEL + GAP // 2, last, "accuracy without adaptation, %", chosen),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(lines: dict[str, list], top: float, last: int, title: str, chosen: int | None) -> list[str]:
    values = [v for points in lines.values() for _, v, _ in points] or [0.0, 1.0]
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.5
    low, high = low - margin, high + margin
    inner, bottom = WIDTH - LEFT - RIGHT, top + PANEL

    def x(step):
        return LEFT + inner * step / last

    def y(value):
        return bottom - PANEL * (min(max(value, low), high) - low) / (high - low)

    parts = [f'<text x="{LEFT}" y="{top - 10}" font-weight="bold">{escape(title)}</text>']
    for k in range(5):
        at = low + (high - low) * k / 4
        parts.append(f'<path d="M{LEFT} {y(at):.1f}H{LEFT + inner}" stroke="{GRID}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{at:.4g}</text>')
        step = last * k / 4
        parts.append(f'<text x="{x(step):.1f}" y="{bottom + 16}" text-anchor="middle">{step:.0f}</text>')
    if chosen is not None:
        parts.append(
            f'<path d="M{x(chosen):.1f} {top}V{bottom}" stroke="{INK}" stroke-dasharray="2 3"/>'
            f'<text x="{x(chosen) + 3:.1f}" y="{top + 11}">chosen</text>'
        )
    for k, (name, points) in enumerate(lines.items()):
        parts += _line(name, points, COLOURS[k % len(COLOURS)], x, y)
        dash = ' stroke-dasharray="5 4"' if name.endswith(" ") else ""
        at, right = top + 8 + 17 * k, WIDTH - RIGHT + 14
        parts.append(
            f'<path d="M{right} {at}h22" stroke="{COLOURS[k % len(COLOURS)]}" stroke-width="2"{dash}/>'
        )
        parts.append(f'<text x="{right + 28}" y="{at + 4}">{escape(name.strip())}</text>')
    return parts


def _line(name: str, points: list, colour: str, x, y) -> list[str]:
    path = "M" + "L".join(f"{x(s):.1f} {y(v):.1f}" for s, v, _ in points)
    dash = ' stroke-dasharray="5 4"' if name.endswith(" ") else ""
    parts = []
    if any(half for _, _, half in points):
        upper = [f"{x(s):.1f} {y(v + half):.1f}" for s, v, half in points]
        lower = [f"{x(s):.1f} {y(v - half):.1f}" for s, v, half in reversed(points)]
        parts.append(f'<path d="M{"L".join(upper + lower)}Z" fill="{colour}" opacity="0.12"/>')
    return [*parts, f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
