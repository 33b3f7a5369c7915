"""The last verdicts with their images, so that they can be looked at and corrected."""

from collections import OrderedDict
from contextlib import suppress
from typing import NamedTuple

from tinytrain.base.errors import InputError, one_line

SEEN, SEEN_BYTES = 50, 2**24  # rows that are held, and bytes of their images
PASSING, PASSING_BYTES = 128, 2**23  # the last images of all: a person needs a while to say that one is wrong


class Seen(NamedTuple):
    row: dict
    data: bytes


class History:
    """Rows of verdicts by "id". As long as a camera shows the same, there is one row.

    The first image of each row is held, and beside these the last images of all.
    """

    def __init__(self):
        self._held: OrderedDict[str, Seen] = OrderedDict()
        self._passing: OrderedDict[str, Seen] = OrderedDict()

    @property
    def last(self) -> dict | None:
        """The row of the last image, whether it is held or not."""
        return next(reversed(self._passing.values())).row if self._passing else None

    def rows(self) -> list[dict]:
        """The oldest first."""
        return [seen.row for seen in self._held.values()]

    def add(self, row: dict, data: bytes) -> dict:
        """The `row` as it is held, of the image in the file `data`."""
        seen = Seen(row | {"corrected": None}, data)
        newest = next(reversed(self._held.values())).row if self._held else None
        _put(self._passing, seen, PASSING, PASSING_BYTES)
        if newest is None or not _says_the_same(newest, row):
            _put(self._held, seen, SEEN, SEEN_BYTES)
        return seen.row

    def find(self, key: str) -> Seen:
        """Row and file of an image. Raises InputError ``file-missing``."""
        if (seen := self._held.get(key) or self._passing.get(key)) is None:
            raise InputError(
                "file-missing", f"{one_line(key, 40)!r} is none of the last images; send it again"
            )
        return seen

    def corrected(self, key: str, name: str | None) -> None:
        """An image was said to be of class `name`, None: not any more; it has a row of its own then."""
        with suppress(InputError):
            seen = self.find(key)
            seen.row["corrected"] = name
            if key not in self._held:
                _put(self._held, seen, SEEN, SEEN_BYTES)


def _says_the_same(one: dict, other: dict) -> bool:
    same = all(one[key] == other[key] for key in ("class", "verdict"))
    return same and one["id"] != other["id"] and not one["corrected"]


def _put(held: OrderedDict[str, Seen], seen: Seen, most: int, most_bytes: int) -> None:
    """Put `seen` last; of more than fits, the first ones go, but never the last one."""
    held.pop(seen.row["id"], None)
    held[seen.row["id"]] = seen
    while len(held) > 1 and (len(held) > most or sum(len(s.data) for s in held.values()) > most_bytes):
        held.popitem(last=False)
