"""Checks of parsed YAML or JSON: each is a function (value, where) -> checked value.

`table` makes a dataclass from a mapping. The fields of the dataclass carry their checks, so that a key, its
default and its allowed values are written in one place.
"""

import difflib
import re
import reprlib
from dataclasses import MISSING, field, fields

from tinytrain.base.errors import InputError, one_line

NUMBER = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")
MAX_SHOWN = 60  # characters of a wrong value in a message
SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN.maxlong = MAX_SHOWN + 1


class WrongError(Exception):
    """A value that is not allowed: (where, value, allowed)."""

    def __str__(self):
        where, value, allowed = self.args
        return f"{where} is {_shown(value)}; allowed: {allowed}"


def number(low: float, high: float, whole: bool = False):
    kind = "a whole number" if whole else "a number"

    def check(value, where):
        # YAML 1.1 reads 1e-4 as text.
        if isinstance(value, str) and NUMBER.fullmatch(value) and not whole:
            value = float(value)
        good = isinstance(value, int) or (isinstance(value, float) and not whole)
        if not good or isinstance(value, bool) or not low <= value <= high:
            raise WrongError(where, value, f"{kind} from {low:g} to {high:g}")
        return value if whole else float(value)

    return check


def count(low: int = 1, high: int = 10**7):
    return number(low, high, whole=True)


def flag(value, where):
    if not isinstance(value, bool):
        raise WrongError(where, value, "true or false")
    return value


def text(value, where):
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= 200:
        raise WrongError(where, value, "a text of 1 to 200 letters")
    return value


def any_text(value, where):
    if not isinstance(value, str):
        raise WrongError(where, value, "a text")
    return value


def choice(*known: str):
    def check(value, where):
        if value not in known:
            raise WrongError(where, value, f"one of {', '.join(known)}")
        return value

    return check


def list_of(check, least: int = 0, most: int = 100, kind: str = "a list"):
    def checked(value, where):
        if not isinstance(value, list) or not least <= len(value) <= most:
            size = f"{least}" if least == most else f"{least} to {most}"
            raise WrongError(where, value, f"{kind} of {size} items")
        return tuple(check(v, f"{where}[{i}]") for i, v in enumerate(value))

    return checked


def optional(check):
    """What `check` takes, or null."""

    def checked(value, where):
        return None if value is None else check(value, where)

    return checked


def pair(check):
    def checked(value, where):
        low, high = list_of(check, 2, 2, "a pair [low, high]")(value, where)
        if low > high:
            raise WrongError(where, value, "a pair [low, high] with low <= high")
        return low, high

    return checked


def named(check, name=text):
    """A check of a mapping of names, each of which `name` allows, to values."""

    def checked(value, where):
        if not isinstance(value, dict):
            raise WrongError(where, value, "a table of names")
        return {name(key, where): check(inner, _at(where, key)) for key, inner in value.items()}

    return checked


def holding(checks, optional=()):
    """A check of a mapping that may hold other keys than those of `checks`; they are dropped."""

    def checked(value, where):
        if not isinstance(value, dict):
            raise WrongError(where or "the content", value, f"a table with {', '.join(checks)}")
        lacking = [name for name in checks if name not in value]
        if missing := [name for name in lacking if name not in optional]:
            raise WrongError(_at(where, missing[0]), "missing", "a value; it has no default")
        return {
            name: check(value[name], _at(where, name))
            for name, check in checks.items()
            if name not in lacking
        }

    return checked


def table(cls, checks=None):
    """A check of a mapping against the fields of dataclass `cls`; returns an instance."""

    def checked(value, where):
        known = {f.name: f for f in fields(cls)}
        if not isinstance(value, dict):
            raise WrongError(where or "the content", value, f"a table with {', '.join(known)}")
        _require_known(value, where, known)
        made = {}
        for name, f in known.items():
            if name in value:
                check = (checks or {}).get(name) or f.metadata["check"]
                made[name] = check(value[name], _at(where, name))
            elif f.default is MISSING and f.default_factory is MISSING:
                raise WrongError(_at(where, name), "missing", "a value; it has no default")
        return cls(**made)

    return checked


def flat(cls, checks=None):
    """A check like `table`, for a dataclass of dataclasses whose fields all stand in one mapping."""
    parts = {f.name: (table(f.type, checks), {g.name for g in fields(f.type)}) for f in fields(cls)}

    def checked(value, where):
        _require_known(value, where, [g.name for f in fields(cls) for g in fields(f.type)])
        return cls(
            **{
                name: check({key: v for key, v in value.items() if key in keys}, where)
                for name, (check, keys) in parts.items()
            }
        )

    return checked


def _require_known(value: dict, where: str, known) -> None:
    for key in value:
        if key not in known:
            closest = difflib.get_close_matches(one_line(key, MAX_SHOWN), known, n=1)
            hint = f", did you mean {closest[0]}? Known" if closest else "; known"
            raise WrongError(_at(where, key), value[key], f"no such key{hint}: {', '.join(known)}")


def _at(where: str, key) -> str:
    key = one_line(key, MAX_SHOWN)
    return f"{where}.{key}" if where else key


def _shown(value) -> str:
    """The beginning of ``repr(value)``, in a time that does not grow with the value."""
    return one_line(SHOWN.repr(value), MAX_SHOWN)


def of(check, default=MISSING):
    """A dataclass field with a check."""
    if isinstance(default, type):
        return field(default_factory=default, metadata={"check": check})
    return field(default=default, metadata={"check": check})


def parsed(check, content, source: str, code: str):
    """The result of `check` on `content`. Raises InputError `code` that names the place in `source`."""
    try:
        return check(content, "")
    except WrongError as wrong:
        raise InputError(code, f"{source}: {wrong}") from None
