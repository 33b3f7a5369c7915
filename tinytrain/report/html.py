"""A report as one HTML file that needs nothing else: no script, no font, no network."""

from html import escape
from pathlib import Path
from string import Template

from tinytrain.base.svg import drawing, element, rectangle, text
from tinytrain.base.units import format_bytes
from tinytrain.report.text import render_text

WIDTH, HEIGHT = 720, 260
TICKS = ("fill", "head", "embed", "backward", "head", "result", "predict")  # the columns of the arena map
LABELLED = 14  # pixels a buffer must be high to carry its name
STAGES = ("before_cosine", "before", "after")


def render_html(facts: dict) -> str:
    """The report `facts` (`Report.to_json`) as a page."""
    page = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    accuracy = facts["accuracy"]
    headline = f"{facts['backbone']}, {facts['policy']}"
    if accuracy["n_query"]:
        headline += f": {accuracy['before']:.1%} to {accuracy['after']:.1%}"
    return page.substitute(
        title=escape(headline),
        summary=escape(render_text(facts)),
        accuracy=_bars({name: accuracy[name] for name in STAGES}) if accuracy["n_query"] else "",
        arena=_arena(facts["arena_table"], facts["memory"]),
        losses=_losses(facts["losses"]),
        warnings="".join(f"<li>{escape(w)}</li>" for w in facts["warnings"]),
        table="".join(_row(row) for row in facts["arena_table"]),
        seconds=_bars_of_seconds(facts["seconds"]),
    )


def _bar_rows(rows: list[tuple[str, float, str]], label: str) -> str:
    """Horizontal bars: (name, share of the full width, value as text)."""
    body = []
    for k, (name, share, value) in enumerate(rows):
        y = 24 * k
        body.append(text(150, y + 16, name, "end"))
        body.append(rectangle(160, y + 4, 460 * share, 16, class_="bar", rx=2))
        body.append(text(168 + 460 * share, y + 16, value))
    return drawing(body, WIDTH, 24 * len(rows), label)


def _bars(shares: dict[str, float]) -> str:
    rows = [(name.replace("_", ", "), share, f"{share:.1%}") for name, share in shares.items()]
    return _bar_rows(rows, "accuracy before and after")


def _bars_of_seconds(seconds: dict[str, float]) -> str:
    total = max(seconds["total"], 1e-9)
    rows = [(name, s / total, f"{s:.2f} s") for name, s in seconds.items() if name != "total"]
    return _bar_rows(rows, "seconds by stage")


def _arena(table: list[dict], memory: dict) -> str:
    """A map: columns are stages of the run, height is the address, a box is a buffer while it is alive."""
    column, scale = WIDTH / len(TICKS), HEIGHT / max(memory["arena"], 1)
    body = [text((k + 0.5) * column, 14, name, "middle") for k, name in enumerate(TICKS)]
    for number, row in enumerate(table):
        x, width = row["first"] * column, (row["last"] - row["first"] + 1) * column
        y, height = 20 + row["offset"] * scale, row["bytes"] * scale
        name = f"{row['name']}: {row['bytes']:,} bytes"
        body.append(rectangle(x + 1, y, width - 2, height, name, class_=f"buffer b{number % 5}"))
        if height >= LABELLED:
            body.append(text(x + 6, y + min(height, 16) - 3, f"{row['name']}  {format_bytes(row['bytes'])}"))
    return drawing(body, WIDTH, HEIGHT + 22, "the arena by stage and address")


def _losses(losses: list[float | None]) -> str:
    """None stands for the loss that is no number, at which training broke off."""
    finite = [loss for loss in losses if loss is not None]
    if len(finite) < len(losses):
        return f"<p>Training broke off: the loss of step {len(losses)} is no number.</p>" + (
            _losses(finite) if len(finite) > 1 else ""
        )
    if len(losses) < 2:
        return "<p>Nothing was trained.</p>"
    top = max(max(losses), 1e-9)
    step = (WIDTH - 60) / (len(losses) - 1)
    points = " ".join(
        f"{50 + k * step:.1f},{10 + 150 * (1 - loss / top):.1f}" for k, loss in enumerate(losses)
    )
    body = [
        element("polyline", class_="loss", points=points),
        element("line", class_="axis", x1=50, y1=160, x2=WIDTH - 10, y2=160),
        text(44, 16, f"{top:.2f}", "end"),
        text(44, 163, "0", "end"),
        text(50, 178, "step 1"),
        text(WIDTH - 10, 178, f"step {len(losses)}", "end"),
    ]
    return drawing(body, WIDTH, 184, "loss by step")


def _row(row: dict) -> str:
    numbers = (f"{row['offset']:,}", f"{row['bytes']:,}")
    cells = (row["name"], *numbers, *(f"{row[k] + 1} {TICKS[row[k]]}" for k in ("first", "last")))
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
