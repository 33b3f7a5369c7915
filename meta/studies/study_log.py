"""The log of a study: a line for each finished job. A run that was stopped goes on where it stopped."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from tinytrain.base.errors import StorageError
from tinytrain.meta.run_log import JsonLines, whole_lines


def read_log(path: Path | None) -> list[dict]:
    """Finished rows; a line cut off by a kill is dropped."""
    found = whole_lines(path.read_bytes()) if path and path.exists() else []
    return [json.loads(line) for line in found]


def run_left(
    jobs: Sequence[dict], settings: dict, rows: list[dict], path: Path | None, job: Callable[..., dict]
) -> None:
    """Run those of `jobs` that are not in `rows` with these `settings`; their rows are added, also to `path`.

    A job is the keyword arguments of ``job(...)``, which returns what it found.
    """
    names = jobs[0] if jobs else ()
    done = [{name: row[name] for name in names} for row in rows if row["settings"] == settings]
    left = [row for row in jobs if row not in done]
    busy = StorageError("log-in-use", f"another run is writing {path}; let it end or name another")
    with JsonLines(path, busy) if path else nullcontext() as log:
        for number, row in enumerate(left, 1):
            rows.append({**row, "settings": settings, **job(**row)})
            if log:
                log.append(rows[-1:])
            print(f"\r{number}/{len(left)} jobs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def print_summaries(rows: list[dict], summary: Callable[[list[dict]], list[str]]) -> None:
    """The lines of `summary` for the rows of each set of settings, in the order in which those came up."""
    found: dict[tuple, list[dict]] = {}
    for row in rows:
        found.setdefault(tuple(row["settings"].items()), []).append(row)
    for settings, mine in found.items():
        print(", ".join(f"{name} {value}" for name, value in settings), "", sep="\n")
        print("\n".join(summary(mine)), "", sep="\n")
