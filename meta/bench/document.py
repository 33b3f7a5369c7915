"""A report as a list of blocks, and the blocks as Markdown or as one HTML page."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template


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
    """An SVG picture; `file` is its name beside the Markdown page."""

    file: str
    title: str
    svg: str


Block = Heading | Text | Table | Figure


def markdown(title: str, blocks: Iterable[Block]) -> str:
    parts = [f"# {title}", *(_MARKDOWN[type(block)](block) for block in blocks)]
    return "\n\n".join(parts) + "\n"


def table_lines(table: Table) -> str:
    """The table in Markdown."""

    def line(cells):
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rows = [
        [f"**{cell}**" if (r, c) in table.strong else cell for c, cell in enumerate(row)]
        for r, row in enumerate(table.rows)
    ]
    return "\n".join([line(table.header), "|---" * len(table.header) + "|", *map(line, rows)])


_MARKDOWN = {
    Heading: lambda block: "#" * block.level + " " + block.text,
    Text: lambda block: block.text,
    Table: table_lines,
    Figure: lambda block: f"![{block.title}]({block.file})",
}


def html(title: str, blocks: Iterable[Block]) -> str:
    """One page that needs nothing else: no script, no font, no network."""
    page = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    return page.substitute(title=escape(title), body="\n".join(_HTML[type(block)](block) for block in blocks))


def _html_table(table: Table) -> str:
    def cell(r: int, c: int, text: str) -> str:
        strong = ' class="strong"' if (r, c) in table.strong else ""
        return f"<td{strong}>{escape(text)}</td>"

    head = "".join(f"<th>{escape(text)}</th>" for text in table.header)
    body = "".join(
        "<tr>" + "".join(cell(r, c, text) for c, text in enumerate(row)) + "</tr>"
        for r, row in enumerate(table.rows)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


_HTML = {
    Heading: lambda block: f"<h{block.level}>{escape(block.text)}</h{block.level}>",
    Text: lambda block: f"<p>{escape(block.text)}</p>",
    Table: _html_table,
    Figure: lambda block: f"<figure>{block.svg}<figcaption>{escape(block.title)}</figcaption></figure>",
}
