"""The frame of all pages, and the pieces that they are made of: one file, no script, no font, no network.

Pieces take and give HTML. What comes from outside, such as the name of a file, passes `safe` or `name` first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from tinytrain.base.errors import visible

VOID = ("img", "br")  # elements without an end


def page(title: str, body: Iterable[str]) -> str:
    """A whole page around the HTML pieces of `body`; `title` is text."""
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=safe(title), body="\n".join(part for part in body if part))


def safe(text: object) -> str:
    """`text` as HTML that shows it as it is; control characters and marks of direction are escaped."""
    return escape(visible(str(text)))


def name(text: str, limit: int | None = None) -> str:
    """A name that someone gave, whatever its writing direction; above `limit` letters it is shortened."""
    if limit is None or len(text) <= limit:
        return tag("bdi", safe(text))
    return tag("bdi", safe(text[: limit - 1]) + "…", title=text)


def tag(kind: str, *content: str, **attributes: object) -> str:
    """An element around pieces of HTML. For an attribute such as ``class`` give ``class_``.

    >>> tag("p", "1 &lt; 2", class_="dim")
    '<p class="dim">1 &lt; 2</p>'
    """
    given = "".join(f' {key.rstrip("_")}="{safe(value)}"' for key, value in attributes.items())
    return f"<{kind}{given}>" if kind in VOID else f"<{kind}{given}>{''.join(content)}</{kind}>"


def section(title: str, *content: str) -> str:
    """A part of the page under a heading (text); nothing if all of its content is empty."""
    parts = [part for part in content if part]
    return "\n".join([tag("h2", safe(title)), *parts]) if parts else ""


def details(summary: str, *content: str) -> str:
    """Content that is shown when one asks for it; `summary` is text."""
    return tag("details", tag("summary", safe(summary)), *content)


def items(rows: Iterable[str]) -> str:
    """A list of pieces of HTML; nothing for no rows."""
    listed = "".join(tag("li", row) for row in rows)
    return tag("ul", listed) if listed else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]], texts: Sequence[int] = (0,)) -> str:
    """A table of pieces of HTML, which scrolls in its box. Columns `texts` are left-aligned and wrap."""

    def cell(kind: str, column: int, content: str) -> str:
        return tag(kind, content, **({"class_": "text"} if column in texts else {}))

    head = tag("tr", *(cell("th", k, content) for k, content in enumerate(header)))
    body = (tag("tr", *(cell("td", k, content) for k, content in enumerate(row))) for row in rows)
    return scrolled(tag("table", tag("thead", head), tag("tbody", *body)))


def scrolled(content: str) -> str:
    """What may be wider than the screen, in a box of its own that scrolls."""
    return tag("div", content, class_="wide", tabindex="0")


@dataclass(frozen=True)
class Bar:
    """A bar beside its `name` and `value` (HTML): `fraction` of the full width, with an interval if given."""

    name: str
    fraction: float
    value: str
    interval: tuple[float, float] | None = None
    weak: bool = False


def bars(rows: Iterable[Bar], scale: Sequence[str] = ()) -> str:
    """Horizontal bars. `scale` labels the axis evenly from its start to its end. Nothing leaves the track."""
    drawn = [_row(row) for row in rows]
    if drawn and scale:
        steps = max(1, len(scale) - 1)
        marks = (
            tag("span", safe(label), style=f"left:{100 * k / steps:g}%") for k, label in enumerate(scale)
        )
        drawn.append(tag("div", tag("span"), tag("div", *marks, class_="scale"), tag("span"), class_="row"))
    return tag("div", *drawn) if drawn else ""


def _row(row: Bar) -> str:
    fill = tag("i", class_="fill weak" if row.weak else "fill", style=f"width:{_percent(row.fraction)}")
    drawn = ""
    if row.interval is not None:
        low, high = (min(max(end, 0.0), 1.0) for end in row.interval)
        drawn = tag("i", class_="range", style=f"left:{_percent(low)};width:{_percent(high - low)}")
    return tag(
        "div",
        tag("span", row.name),
        tag("span", fill, drawn, class_="track"),
        tag("span", row.value, class_="value"),
        class_="row",
    )


def _percent(fraction: float) -> str:
    return f"{100 * min(max(fraction, 0.0), 1.0):.2f}%"


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Colours with what they mean: (class of the colour, text)."""
    return tag("ul", *(tag("li", tag("i", class_=k), safe(text)) for k, text in entries), class_="legend")
