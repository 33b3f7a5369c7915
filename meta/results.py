"""RESULTS.md from the logs in ``results/``: ``python -m tinytrain.meta.results [CLONE]``.

The prose is ``results/template.md``. A line ``@NAME`` in it becomes the table NAME of `result_tables`. A line
``@copy PAGE: COLUMNS`` becomes the first table of ``results/PAGE/README.md`` with these columns, where no log
is kept. ``@logs PAGE`` becomes two cells. Under a table stands when its log was made, and whether it is
stale: made by other code than today's, and nobody has shown that today's gives the same. What shows it are
rows in a log of the same name in ``results/again/``: some of each run, made by today's code.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tinytrain import __version__
from tinytrain.base.console import Parser, guarded
from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes, write_bytes
from tinytrain.meta.bench.codehash import code_hash
from tinytrain.meta.result_tables import TABLES
from tinytrain.meta.run_log import MAX_BYTES, read_log
from tinytrain.meta.studies.study import table

MADE = re.compile(r"^\[All results\]\(\.\./\.\./RESULTS\.md\)\. Measured: ([^;]+);(.+?)\.\n\n", re.M | re.S)
rows_of = cache(read_log)


def text_of(path: Path) -> str:
    return read_bytes(path, MAX_BYTES).decode()


def results(folder: Path) -> str:
    """The text of RESULTS.md from `folder`. Raises InputError ``bad-value`` for a line that names no
    table.
    """

    def made(line: re.Match) -> str:
        name, _, words = line[1].partition(" ")
        if name == "copy":
            page, _, columns = words.partition(": ")
            return copied(folder, page, columns.split(", "))
        if name not in TABLES:
            raise InputError("bad-value", f"results/template.md has @{name}; tables are {', '.join(TABLES)}")
        function, logs = TABLES[name]
        return markdown(*function(*(rows_of(folder / log) for log in logs))) + source(folder, logs)

    text = text_of(folder / "template.md").replace("VERSION", __version__)
    text = re.sub(r"@logs (\w+)", lambda found: state(folder, found[1]), text)
    return re.sub(r"^@(.+)$", made, text, flags=re.M)


def markdown(header: Sequence[str], *rows: Sequence[str]) -> str:
    return "\n".join([*table(header, rows), "", ""])


def copied(folder: Path, page: str, columns: list[str]) -> str:
    """`columns` of the table of a page that has them; no log is kept of it."""
    text = text_of(folder / page / "README.md")
    for found in re.findall(r"(?:^\|.*\n)+", text, re.M):
        header, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in found.splitlines())
        if set(columns) <= set(header):
            places = [header.index(column) for column in columns]
            cells = markdown(*([row[place] for place in places] for row in (header, *rows)))
            when, _ = facts(folder, page)
            return f"{cells}Measured {when}; no log is kept. [The command](results/{page}/README.md)."
    raise InputError("bad-value", f"results/{page}/README.md has no table with the columns {columns}")


def page_of(folder: Path, log: str) -> tuple[str, str]:
    """The page that gives the command of a log, and when it was made."""
    for path in sorted(folder.glob("*/README.md")):
        when, logs = facts(folder, path.parent.name)
        if log in logs:
            return path.parent.name, when
    raise InputError("bad-value", f"no page in results/ says when results/{log} was measured")


def facts(folder: Path, page: str) -> tuple[str, list[str]]:
    """When the figures of a page were measured, and the logs that they are from."""
    if not (found := MADE.search(text_of(folder / page / "README.md"))):
        raise InputError("bad-value", f"results/{page}/README.md does not say when it was measured")
    names = re.findall(r"`results/([^`]+)`", found[2])
    return found[1], sorted(log.name for name in names for log in folder.glob(name))


def state(folder: Path, page: str) -> str:
    """When a page was measured, how many logs it has and how many are stale, as two cells."""
    when, logs = facts(folder, page)
    stale = sum(is_stale(folder / log) for log in logs)
    return f"{when} | {len(logs) or 'none'}{f', {stale} **stale**' if stale else ''}"


def is_stale(log: Path) -> bool:
    """Whether other code than today's made any row of a log, and no rows made again show the same."""
    again = log.parent / "again" / log.name
    return not _is_of_today(log) and not (again.exists() and _is_of_today(again) and _is_same(log, again))


def _is_of_today(log: Path) -> bool:
    return {row.get("code") or row["settings"]["code"] for row in rows_of(log)} == {code_hash()}


def _is_same(log: Path, again: Path) -> bool:
    """Whether `again` has rows of every run of the log of a study, with the same findings but for seconds."""
    old, new = (dict(map(_finding, rows_of(path))) for path in (log, again))
    return {run for run, _ in old} == {run for run, _ in new} and new.items() <= old.items()


def _finding(row: dict) -> tuple[tuple[str, str], str]:
    """Settings and job of a row of a study, and what it found."""
    names = list(row)
    first = names.index("settings")
    settings = {name: value for name, value in row["settings"].items() if name != "code"}
    job, found = ({name: row[name] for name in part} for part in (names[:first], names[first + 1 :]))
    return (json.dumps(settings), json.dumps(job)), json.dumps(_without_seconds(found))


def _without_seconds(value):
    if isinstance(value, dict):
        return {name: _without_seconds(inner) for name, inner in value.items() if name != "seconds"}
    return value


def source(folder: Path, logs: Iterable[str]) -> str:
    """What stands under a table: its logs, when they were made and whether they are stale."""
    parts = []
    for log in logs:
        page, when = page_of(folder, log)
        stale = ", **stale**" if is_stale(folder / log) else ""
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
