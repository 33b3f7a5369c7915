"""What is remembered of the files of a folder, so that each image is looked at once."""

from array import array

import numpy as np

MOST_GONE = 2**18  # files that are not there any more; of these, the last ones
NAME, FACTS, CONTENT, LOOK = range(4)
UNREAD = 0  # the content of a file that was not read, and the facts of one that is to be read again


class Seen:
    """Facts and content of files by name, all of them numbers of 64 bits.

    A file that vanishes is remembered, because folders come back: shares and sticks are mounted again, and
    leave an empty folder meanwhile. Memory: 32 bytes for each file that is there, and for MOST_GONE more.
    """

    def __init__(self):
        self._table = np.empty((4, 0), np.uint64)  # sorted by name
        self._new: dict[int, tuple[int, int]] = {}
        self._looks = 0

    def get(self, name: int) -> tuple[int, int]:
        """(facts, content), of what is not known (UNREAD, UNREAD)."""
        if name in self._new:
            return self._new[name]
        i = int(np.searchsorted(self._table[NAME], np.uint64(name)))
        if i < self._table.shape[1] and int(self._table[NAME, i]) == name:
            return int(self._table[FACTS, i]), int(self._table[CONTENT, i])
        return UNREAD, UNREAD

    def put(self, name: int, facts: int, content: int) -> None:
        self._new[name] = facts, content

    def look(self, here: array, complete: bool) -> None:
        """Note which names are there; if that is `complete`, what is gone for longest may be forgotten."""
        self._looks += 1
        if self._new:
            rows = [(name, *what, self._looks) for name, what in self._new.items()]
            new = np.array(rows, np.uint64).T
            kept = self._table[:, ~np.isin(self._table[NAME], new[NAME])]
            table = np.concatenate([kept, new], axis=1)
            self._table, self._new = table[:, np.argsort(table[NAME])], {}
        if not complete:
            return
        looks = self._table[LOOK]
        looks[np.isin(self._table[NAME], np.frombuffer(here, np.uint64) if here else [])] = self._looks
        gone = np.sort(looks[looks < self._looks])
        if len(gone) > MOST_GONE:
            self._table = self._table[:, looks > gone[len(gone) - MOST_GONE - 1]]
