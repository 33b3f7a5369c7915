"""A report as a list of blocks, and the blocks as Markdown or as one HTML page."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinytrain.base.page import page, safe, scrolled, tag


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Table:
    """`rows` of texts under `header`; `strong` marks cells (row, column) to stand out."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Figure:
    """An SVG image; `file` is its name beside the Markdown page."""

    file: str
    title: str
    svg: str


Block = Heading | Text | Table | Figure
# Not every reader of Markdown knows a backslash before `<`; the last two would become links.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "://": "&#58;//", "www.": "www&#46;"}
_MARKS = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")  # inside a word _ is just that


def plain(text: str) -> str:
    """`text` for Markdown that shows it as it is: no markup, no HTML and no link comes of it.

    >>> plain("<b> tiny_train|_x_ https://a.b")
    '&lt;b&gt; tiny_train\\\\|\\\\_x\\\\_ https&#58;//a.b'
    """
    for found, entity in _ENTITIES.items():
        text = text.replace(found, entity)
    return _MARKS.sub(r"\\\g<0>", text)


def markdown(title: str, blocks: Iterable[Block]) -> str:
    parts = [f"# {plain(title)}", *(_MARKDOWN[type(block)](block) for block in blocks)]
    return "\n\n".join(parts) + "\n"


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of Markdown of cells that are Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return [lines[0], "|---" * len(header) + "|", *lines[1:]]


def _markdown_table(table: Table) -> str:
    rows = (
        [f"**{plain(cell)}**" if (r, c) in table.strong else plain(cell) for c, cell in enumerate(row)]
        for r, row in enumerate(table.rows)
    )
    return "\n".join(table_lines(list(map(plain, table.header)), rows))


_MARKDOWN = {
    Heading: lambda block: "#" * block.level + " " + plain(block.text),
    Text: lambda block: plain(block.text),
    Table: _markdown_table,
    Figure: lambda block: f"![{plain(block.title)}]({block.file})",
}


def html(title: str, blocks: Iterable[Block]) -> str:
    """One page that needs nothing else: no script, no font, no network."""
    return page(title, (_HTML[type(block)](block) for block in blocks))


def _html_table(table: Table) -> str:
    def cell(r: int, c: int, text: str) -> str:
        return tag("td", safe(text), **({"class_": "strong"} if (r, c) in table.strong else {}))

    head = tag("tr", *(tag("th", safe(text)) for text in table.header))
    rows = (tag("tr", *(cell(r, c, text) for c, text in enumerate(row))) for r, row in enumerate(table.rows))
    return scrolled(tag("table", tag("thead", head), tag("tbody", *rows)))


def _html_figure(figure: Figure) -> str:
    return tag("figure", scrolled(figure.svg), tag("figcaption", safe(figure.title)), class_="figure")


_HTML = {
    Heading: lambda block: tag(f"h{block.level}", safe(block.text)),
    Text: lambda block: tag("p", safe(block.text)),
    Table: _html_table,
    Figure: _html_figure,
}
