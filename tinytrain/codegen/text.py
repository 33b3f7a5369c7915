"""Numbers, names and comments of C."""

import re
import textwrap
from collections.abc import Iterable, Iterator

import numpy as np

WIDTH = 110


def name_of(text: str, prefix: str = "") -> str:
    """A macro: upper case, one underscore for whatever is no letter or digit."""
    return re.sub(r"\W+", "_", f"{prefix} {text}".strip()).strip("_").upper()


def comment(text: str) -> str:
    """A comment; names that a file gives cannot end it."""
    plain = "".join(c if c.isprintable() and c.isascii() else "?" for c in text)
    return f"/* {plain.replace('*/', '* /').replace('/*', '/ *')} */"


def number(value) -> str:
    """A constant with the bits of a float32, or a whole number."""
    if not isinstance(value, float | np.floating):
        return str(int(value))
    short = f"{float(np.float32(value)):.9g}"
    return f"{short}f" if any(c in short for c in ".en") else f"{short}.0f"


def rows(values: Iterable[str], indent: str = "    ") -> str:
    """Values with commas between, in lines."""
    return textwrap.fill(", ".join(values), WIDTH, initial_indent=indent, subsequent_indent=indent)


def array(declaration: str, values: np.ndarray, note: str = "") -> str:
    """A definition of all `values`, flat."""
    said = f"{comment(note)}\n" if note else ""
    return f"{said}{declaration}[{values.size}] = {{\n{rows(map(number, values.reshape(-1)))}\n}};\n"


def braces(values: Iterable) -> str:
    """Numbers of one entry of an array."""
    return f"{{{', '.join(map(number, values))}}}"


def table(declaration: str, entries: Iterable[str]) -> Iterator[str]:
    """Lines of a definition of an array with an entry in each line."""
    yield f"{declaration} = {{"
    yield from (f"    {entry}," for entry in entries)
    yield "};"
    yield ""


def defined(settings: dict) -> Iterator[str]:
    """Lines of plan.h: whole numbers, floats and texts by the names of their macros."""
    for name, value in settings.items():
        said = value if isinstance(value, str) else number(value) + "u" * isinstance(value, int)
        yield f"#define TT_{name} {said}"


def function(head: str, body: Iterable[str]) -> Iterator[str]:
    """Lines of a definition of a function."""
    yield head
    yield "{"
    yield from (f"    {line}" for line in body)
    yield "}"
    yield ""


def by(extent: Iterable[int]) -> str:
    return " x ".join(map(str, extent))
