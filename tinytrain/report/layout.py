"""Labelled lines of text, wrapped with a hanging indent, up to a given number of lines."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tinytrain.base.errors import visible
from tinytrain.base.shell import quoted

LABEL = 12  # width of the column of labels
WIDTH = 100
NAME = 48  # letters of a name; of a longer one the middle is left out
EXAMPLES = 40  # most examples of an item that are tried
COMMAND_LINES = 3  # most lines of a command; a longer one is not broken


def worded(facts: dict, text: str) -> str:
    """`text` about the report `facts`, in the words of the kind of its inputs."""
    from tinytrain.episode.kinds import kind_in  # only here, as text needs no numpy

    return kind_in(facts).words(text)


@dataclass(frozen=True)
class Item:
    """A `text` under its `label`, with `examples`, of which as many are shown as there is room for."""

    label: str
    text: str
    examples: tuple[str, ...] = ()

    def worded(self, words: Callable[[str], str]) -> "Item":
        """The same in other words."""
        return Item(words(self.label), words(self.text), tuple(map(words, self.examples)))

    def lines(self, width: int, most: int | None = None) -> list[str]:
        """The lines of the item, `most` of them at most (None: as many as it takes)."""
        whole = len(self.examples) if most is None else min(len(self.examples), EXAMPLES)
        texts = [*map(self._with_examples, range(whole, -1, -1)), self.text]
        for text in texts:
            lines = wrapped(text, width)
            if most is None or len(lines) <= most:
                return labelled(self.label, lines)
        last = cut(lines[most - 1], width - LABEL - 4)
        clause = max(last.rfind(", "), last.rfind("; "))  # half of what is said misleads
        last = last[:clause] if 2 * clause > len(last) else last
        return labelled(self.label, [*lines[: most - 1], f"{last} ..."])

    def _with_examples(self, count: int) -> str:
        if not count:
            return f"{self.text} (--verbose names them)" if self.examples else self.text
        more = len(self.examples) - count
        return f"{self.text}: {'; '.join(self.examples[:count])}" + (
            f"; and {more} more (--verbose)" if more else ""
        )


@dataclass(frozen=True)
class Command:
    """The `words` of a command line under a `label`, to be copied into a shell: never cut."""

    label: str
    words: tuple[str, ...]

    def lines(self, width: int, most: int | None = None) -> list[str]:
        """The command, broken between words so that a shell joins its lines; whole if there is no room."""
        lines = [""]
        for word in map(quoted, self.words):
            if lines[-1] and LABEL + columns(lines[-1]) + columns(word) + 3 > width:
                lines[-1] += " \\"
                lines.append(f"  {word}")
            else:
                lines[-1] += f" {word}" if lines[-1] else word
        if len(lines) > min(COMMAND_LINES, most or COMMAND_LINES):
            lines = [" ".join(map(quoted, self.words))]
        return labelled(self.label, lines)


def fitted(
    items: Sequence[Item | Command],
    width: int,
    most: int | None,
    words: Callable[[str], str] = lambda text: text,
) -> list[str]:
    """All `items` in `most` lines (None: as many as it takes), but for commands in the given `words`.

    A command takes what it needs. What is left goes to the others in turn, a line each, the first ones first:
    to those whose text would be cut, and only then to those that have examples.
    """
    items = [item if isinstance(item, Command) else item.worded(words) for item in items]
    if most is None:
        return [line for item in items for line in item.lines(width)]
    room = most - len(items) + 1
    given = [len(item.lines(width, room)) if isinstance(item, Command) else 1 for item in items]
    texts = [len(wrapped(item.text, width)) if isinstance(item, Item) else 0 for item in items]
    whole = [len(item.lines(width)) if isinstance(item, Item) else 0 for item in items]
    for needed in (texts, whole):
        while (spare := most - sum(given)) > 0 and (short := _short(given, needed)):
            for k in short[:spare]:
                given[k] += 1
    return [line for item, lines in zip(items, given, strict=True) for line in item.lines(width, lines)]


def _short(given: Sequence[int], needed: Sequence[int]) -> list[int]:
    """Places of those that have fewer lines than they need."""
    return [k for k, lines in enumerate(given) if lines < needed[k]]


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """`text` in lines that fit beside the labels; control characters are escaped.

    Blanks inside a line stay, so that columns keep their places.
    """
    lines, room = [""], width - LABEL
    for piece in re.findall(r" *[^ ]+", visible(text)):
        if lines[-1] and columns(lines[-1] + piece) > room:
            lines.append("")
            piece = piece.lstrip()
        while columns(lines[-1] + piece) > room:  # longer than a line
            head = cut(lines[-1] + piece, room)
            piece = (lines[-1] + piece)[len(head) :]
            lines[-1:] = [head, ""]
        lines[-1] += piece
    return lines


def columns(text: str) -> int:
    """How many columns of a terminal `text` takes: letters of Chinese, Japanese and Korean take two."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, room: int) -> str:
    """The beginning of `text` that fits into `room` columns."""
    ends = accumulate(map(_columns, text))
    return text[: sum(end <= room for end in ends)]


def labelled(label: str, lines: Sequence[str]) -> list[str]:
    """`lines`, of which the first one carries the label."""
    return [f"{'' if k else label:<{LABEL}}{line}".rstrip() for k, line in enumerate(lines)]


def short(name: str, limit: int = NAME) -> str:
    """`name` without control characters, and without its middle if it is longer than `limit`."""
    name = visible(name)
    if len(name) <= limit:
        return name
    head = (limit - 5) // 3
    return f"{name[:head]} ... {name[head + 5 - limit :]}"


def count_of(number: int, noun: str) -> str:
    """``1 image``, ``1,200 images``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
