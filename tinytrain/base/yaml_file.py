"""YAML files as plain values: strings, numbers, lists and tables of bounded size, without repeated keys."""

import os

import yaml

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.files import read_bytes

MAX_BYTES = 100_000
MAX_VALUES = 100_000  # with every alias expanded
MAX_DEPTH = 20
MAX_DIGITS = 100  # characters of a number; Python refuses to convert or print numbers with thousands
PREFIX = "tag:yaml.org,2002:"
TEXT, MERGE = f"{PREFIX}str", f"{PREFIX}merge"
NUMBERS = (f"{PREFIX}int", f"{PREFIX}float")
QUOTE = "put it in quotes"  # `on` and `2040` are not strings either
KINDS = (TEXT, MERGE, *NUMBERS, *(f"{PREFIX}{name}" for name in ("bool", "null", "seq", "map")))


def read_yaml(path: str | os.PathLike, code: str):
    """Content of the YAML file `path`: None, bool, int, float, str, lists and dicts with str keys.

    Raises InputError `code`, or an error of `read_bytes`.
    """
    text = read_bytes(path, MAX_BYTES)
    try:
        return yaml.load(text.decode(), _StrictLoader)
    except _RefusedError as error:
        raise InputError(code, f"{path}: {error}") from error
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(code, f"{path} is not YAML ({one_line(error, 300)}); correct it") from error
    except (ValueError, ArithmeticError, LookupError) as error:  # for example `!!int ""`
        what = f"a value does not match its tag ({one_line(error, 300)})"
        raise InputError(code, f"{path}: {what}; correct it") from error


class _RefusedError(Exception):
    """YAML that is refused: the line, the reason and the remedy."""


class _StrictLoader(yaml.SafeLoader):
    """Checks every node before it becomes a value.

    PyYAML silently keeps the last of two equal keys, and nine lines of nested aliases can expand to more
    values than fit in memory.
    """

    def __init__(self, stream):
        super().__init__(stream)
        self._whole: dict[yaml.Node, tuple[int, int]] = {}  # values and depth of every finished node
        self._level = 0

    def compose_node(self, parent, index):
        mark = self.peek_event().start_mark
        self._require(self._level < MAX_DEPTH, mark, f"is nested deeper than {MAX_DEPTH} levels")
        is_alias = self.check_event(yaml.AliasEvent)
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        if is_alias:
            self._require(node in self._whole, mark, "is an alias of a node that contains it")
        else:
            self._whole[node] = self._checked(node)
        return node

    def _checked(self, node: yaml.Node) -> tuple[int, int]:
        """Values and depth of `node`; its children have been checked."""
        mark = node.start_mark
        self._require(node.tag in KINDS, mark, f"is {one_line(node.tag, 60)}, not text or a number", QUOTE)
        if isinstance(node, yaml.ScalarNode):
            good = node.tag not in NUMBERS or len(node.value) <= MAX_DIGITS
            self._require(good, mark, f"is a number of more than {MAX_DIGITS} digits")
            return 1, 1
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            self._check_keys([key for key, _ in node.value])
            parts = [part for row in node.value for part in row]
        inner = [self._whole[part] for part in parts]
        values, depth = 1 + sum(n for n, _ in inner), 1 + max((d for _, d in inner), default=0)
        self._require(values <= MAX_VALUES, mark, f"holds more than {MAX_VALUES:,} values with its aliases")
        self._require(depth <= MAX_DEPTH, mark, f"is nested deeper than {MAX_DEPTH} levels")
        return values, depth

    def _check_keys(self, keys: list[yaml.Node]) -> None:
        seen = set()
        for key in keys:
            line = key.start_mark.line + 1
            if key.tag not in (TEXT, MERGE):
                raise _RefusedError(f"line {line} has a key that is not text; {QUOTE}")
            if key.value in seen:
                name = one_line(key.value, 60)
                raise _RefusedError(f"{name} occurs twice, the second time in line {line}; correct it")
            seen.add(key.value)

    @staticmethod
    def _require(good: bool, mark, what: str, remedy: str = "correct it") -> None:
        if not good:
            raise _RefusedError(f"line {mark.line + 1} {what}; {remedy}")
