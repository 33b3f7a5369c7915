"""RESULTS.md from the logs in ``results/``: ``python -m tinytrain.meta.results [CLONE]``.

The prose is ``results/template.md``. A line ``@NAME`` in it becomes the table NAME of `result_tables`. A line
``@copy PAGE: COLUMNS`` becomes the first table of ``results/PAGE/README.md`` with these columns, where no log
is kept. Under a table stands when its log was made, and whether it is stale: made by other code than today's.
"""

import json
import lzma
import re
import sys
from collections.abc import Iterable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from tinytrain import __version__
from tinytrain.base.console import Parser, guarded
from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes, write_bytes
from tinytrain.meta.bench.codehash import code_hash
from tinytrain.meta.result_tables import TABLES

LARGEST = 10**8  # bytes of a log
MADE = re.compile(r"^\[All results\]\(\.\./\.\./RESULTS\.md\)\. Measured: ([^;]+);(.+?)\.\n\n", re.M | re.S)


@cache
def read(path: Path) -> list[dict]:
    """The rows of a log, which may be compressed."""
    data = read_bytes(path, LARGEST)
    return [
        json.loads(line) for line in (lzma.decompress(data) if path.suffix == ".xz" else data).splitlines()
    ]


def text_of(path: Path) -> str:
    return read_bytes(path, LARGEST).decode()


def results(folder: Path) -> str:
    """The text of RESULTS.md from `folder`. Raises InputError ``bad-form`` for a line that names no table."""

    def made(line: re.Match) -> str:
        name, _, words = line[1].partition(" ")
        if name == "copy":
            page, _, columns = words.partition(": ")
            return copied(folder, page, columns.split(", "))
        if name not in TABLES:
            raise InputError("bad-form", f"results/template.md has @{name}; tables are {', '.join(TABLES)}")
        function, logs = TABLES[name]
        return f"{markdown(function(*(read(folder / log) for log in logs)))}\n\n{source(folder, logs)}"

    text = text_of(folder / "template.md").replace("VERSION", __version__)
    return re.sub(r"^@(.+)$", made, text, flags=re.M)


def markdown(rows: Iterable[Iterable[str]]) -> str:
    """A table with its header first."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * (lines[0].count(" | ") + 1), *lines[1:]])


def copied(folder: Path, page: str, columns: list[str]) -> str:
    """`columns` of the table of a page that has them; no log is kept of it."""
    text = text_of(folder / page / "README.md")
    for found in re.findall(r"(?:^\|.*\n)+", text, re.M):
        header, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in found.splitlines())
        if set(columns) <= set(header):
            places = [header.index(column) for column in columns]
            cells = markdown([row[place] for place in places] for row in (header, *rows))
            when = MADE.search(text)[1]
            return f"{cells}\n\nMeasured {when}; no log is kept. [The command](results/{page}/README.md)."
    raise InputError("bad-form", f"results/{page}/README.md has no table with the columns {columns}")


def page_of(folder: Path, log: str) -> tuple[str, str]:
    """The page that gives the command of a log, and when it was made."""
    for path in sorted(folder.glob("*/README.md")):
        made = MADE.search(text_of(path))
        when, logs = made.groups() if made else ("", "")
        if any(fnmatch(f"results/{log}", name) for name in re.findall(r"`([^`]+)`", logs)):
            return path.parent.name, when
    raise InputError("bad-form", f"no page in results/ says when results/{log} was measured")


def is_stale(rows: list[dict]) -> bool:
    """Whether other code than today's made any of the rows."""
    return any(row.get("settings", row)["code"] != code_hash() for row in rows)


def source(folder: Path, logs: Iterable[str]) -> str:
    """What stands under a table: its logs, when they were made and whether they are stale."""
    parts = []
    for log in logs:
        page, when = page_of(folder, log)
        stale = ", **stale**" if is_stale(read(folder / log)) else ""
        parts.append(f"[`results/{log}`](results/{page}/README.md), {when}{stale}")
    return f"From {'; '.join(parts)}."


def run(arguments: list[str]) -> None:
    parser = Parser(prog="python -m tinytrain.meta.results", description=__doc__.split("\n")[0])
    parser.add_argument("clone", nargs="?", default=".", type=Path, help="default: this folder")
    clone = parser.parse(arguments).clone
    write_bytes(clone / "RESULTS.md", results(clone / "results").encode())


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


if __name__ == "__main__":
    sys.exit(main())
