"""Drawings as SVG text, piece by piece; needs no library."""

import math
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
INK, GRID, PAPER = "#222222", "#dddddd", "#ffffff"


def element(tag: str, content: str = "", **attributes: str | float) -> str:
    """An element around `content`, which is SVG already. For a name such as ``font-size`` give ``font_size``.

    >>> element("rect", x=1.25, width=30, class_="bar")
    '<rect x="1.25" width="30" class="bar"/>'
    """
    named = "".join(
        f" {name.rstrip('_').replace('_', '-')}={quoteattr(_short(value))}"
        for name, value in attributes.items()
    )
    return f"<{tag}{named}>{content}</{tag}>" if content else f"<{tag}{named}/>"


def _short(value: str | float) -> str:
    return f"{round(value, 2):g}" if isinstance(value, float) else str(value)


def text(x: float | str, y: float, content: str, anchor: str = "start", **attributes) -> str:
    return element("text", escape(content), x=x, y=y, text_anchor=anchor, **attributes)


def rectangle(
    x: float | str, y: float, width: float | str, height: float, hint: str = "", **attributes
) -> str:
    """With what is shown when one points at it."""
    title = element("title", escape(hint)) if hint else ""
    return element("rect", title, x=x, y=y, width=width, height=height, **attributes)


def line(points: Iterable[tuple[float, float]], stroke: str, **attributes) -> str:
    """Straight from each point to the next."""
    d = "M" + "L".join(f"{_short(float(x))} {_short(float(y))}" for x, y in points)
    return element("path", d=d, **{"fill": "none", "stroke": stroke} | attributes)


def round_steps(low: float, high: float, about: int = 6) -> list[float]:
    """Round values from `low` to `high`, at most about so many.

    >>> round_steps(0, 937), round_steps(0.2, 1.1)
    ([0.0, 200.0, 400.0, 600.0, 800.0], [0.2, 0.4, 0.6000000000000001, 0.8, 1.0])
    """
    rough = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= rough)
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def fluid(parts: Iterable[str], height: float, label: str, kind: str = "plot") -> str:
    """A drawing as wide as its page, for which x and widths are percentages; its text keeps its size.

    `page.html` leaves room for the texts of the axes outside of it; `kind` are the classes it goes by.
    """
    content = "\n" + "\n".join(parts) + "\n"
    return element("svg", content, class_=kind, height=height, role="img", aria_label=label) + "\n"


def percent(fraction: float) -> str:
    return f"{_short(100.0 * fraction)}%"


def drawing(parts: Iterable[str], width: float, height: float, label: str, **attributes) -> str:
    """The whole SVG, to stand in a page."""
    content = "\n" + "\n".join(parts) + "\n"
    size = {"width": width, "height": height, "viewBox": f"0 0 {_short(width)} {_short(height)}"}
    return element("svg", content, role="img", aria_label=label, **size, **attributes) + "\n"


def page(parts: Iterable[str], width: float, height: float, label: str, font_size: int = 12) -> str:
    """The whole SVG as a file of its own, dark on white whatever is around it."""
    paper = rectangle(0, 0, width, height, fill=PAPER)
    letters = {"font_family": "sans-serif", "font_size": font_size, "fill": INK}
    name = {"xmlns": "http://www.w3.org/2000/svg"}
    return drawing([paper, *parts], width, height, label, **name, **letters)
