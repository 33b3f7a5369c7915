"""Finding a row of a table by the name that a user gave."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

from tinytrain.base.errors import UsageError

Row = TypeVar("Row")


def find(what: str, name: str, rows: Mapping[str, Row]) -> Row:
    """The row called `name`. Raises UsageError ``unknown-name`` with the closest known name."""
    if name not in rows:
        closest = difflib.get_close_matches(name, rows, n=1)
        hint = f"did you mean {closest[0]}? " if closest else ""
        raise UsageError("unknown-name", f"no {what} {name!r}; {hint}known: {', '.join(rows)}")
    return rows[name]
