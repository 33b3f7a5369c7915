"""The curve of a run as one SVG: loss above, accuracies with their intervals below."""

from tinytrain.base.svg import COLOURS, INK, line, page, text
from tinytrain.meta.axes import HEIGHT, WIDTH, Axis, Frame, upwards

DASHES = {"stroke_dasharray": "5 4"}


def curve(rows: list[dict], title: str) -> str:
    """SVG text of the rows of a log; `left_out` is drawn solid, `held_out` dashed, the chosen step marked."""
    loss = {("loss", ""): [(r["step"], r["loss"], 0.0) for r in rows if r.get("loss") is not None]}
    accuracy: dict[tuple[str, str], list] = {}
    for row in rows:
        for kind in ("left_out", "held_out"):
            for name, (mean, half) in row.get(kind, {}).items():
                accuracy.setdefault((name, kind), []).append((row["step"], 100 * mean, 100 * half))
    last = max((r["step"] for r in rows), default=1) or 1
    chosen = max((r["step"] for r in rows if r.get("best")), default=None)
    parts = [
        *_panel(Frame(0), loss, last, f"{title}: training loss", chosen),
        *_panel(Frame(HEIGHT), accuracy, last, "accuracy without adaptation, %", chosen),
    ]
    return page(parts, WIDTH, 2 * HEIGHT, title)


def _panel(frame: Frame, lines: dict, last: int, title: str, chosen: int | None) -> list[str]:
    values = [v for points in lines.values() for _, v, _ in points] or [0.0, 1.0]
    x, y = Axis(0, last, frame.left, frame.right), upwards(min(values), max(values), frame)
    parts = [text(frame.left, frame.top - 6, title, font_weight="bold")]
    parts += frame.axes(x, y, "step", "", [(step, f"{step:g}") for step in x.ticks()])
    if chosen is not None:
        at = x.at(chosen)
        parts.append(line([(at, frame.top), (at, frame.bottom)], INK, stroke_dasharray="2 3"))
        parts.append(text(at + 3, frame.top + 11, "chosen"))
    for k, ((name, kind), points) in enumerate(lines.items()):
        colour, dashes = COLOURS[k % len(COLOURS)], DASHES if kind == "held_out" else {}
        if any(half for _, _, half in points):
            upper = [(x.at(s), y.at(v + half)) for s, v, half in points]
            lower = [(x.at(s), y.at(v - half)) for s, v, half in reversed(points)]
            parts.append(line(upper + lower, "none", fill=colour, opacity=0.12))
        parts.append(line([(x.at(s), y.at(v)) for s, v, _ in points], colour, stroke_width=2, **dashes))
        at, right = frame.top + 8 + 17 * k, frame.right + 14
        parts.append(line([(right, at), (right + 22, at)], colour, stroke_width=2, **dashes))
        parts.append(text(right + 28, at + 4, name))
    return parts
