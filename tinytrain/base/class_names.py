"""Names of classes, as an episode and a file can hold them."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

MAX_CLASSES = 4096  # of an episode and of a delta
MAX_NAMES = 200_000  # bytes of all class names as JSON
MAX_LETTERS = 1100  # of a class name; a folder of 255 strange bytes has one of 1,020


def wrong_class_names(names: Iterable[str]) -> str | None:
    """Why no file can keep classes of these names: one is no text, or two are the same; None if it can.

    Names that differ only in how letters are encoded are the same: some file systems change that.
    """
    composed = Counter()
    for name in names:
        if not is_text(name) or not 1 <= len(name) <= MAX_LETTERS:
            return f"class name {name!r:.60} is no text of 1 to {MAX_LETTERS:,} letters"
        composed[unicodedata.normalize("NFC", name)] += 1
    repeated = [(name, count) for name, count in composed.items() if count > 1]
    return f"{repeated[0][1]} classes are called {repeated[0][0]!r:.60}" if repeated else None


def is_text(name) -> bool:
    """Whether a file can hold it. Half a surrogate pair is a letter for Python, but no file can hold it."""
    try:
        name.encode()
    except (AttributeError, UnicodeEncodeError):
        return False
    return True
