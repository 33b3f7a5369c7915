"""Rules for class names: what an episode and a file can store."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

MAX_CLASSES = 4096  # of an episode and of a delta
MAX_NAMES = 200_000  # bytes of all class names as JSON
BACKGROUND = "background"  # the class of what is no answer: the room, talk, the radio
MAX_LETTERS = 1100  # of a class name; a folder name of 255 undecodable bytes becomes 1,020 letters


def wrong_class_names(names: Iterable[str]) -> str | None:
    """The reason why a file cannot store these class names, or None: one is not text, or two are equal.

    Names that differ only in their Unicode composition are equal, because some file systems change it.
    """
    composed = Counter()
    for name in names:
        if not is_text(name) or not 1 <= len(name) <= MAX_LETTERS:
            return f"class name {name!r:.60} is not a text of 1 to {MAX_LETTERS:,} letters"
        composed[unicodedata.normalize("NFC", name)] += 1
    repeated = [(name, count) for name, count in composed.items() if count > 1]
    return f"{repeated[0][1]} classes are called {repeated[0][0]!r:.60}" if repeated else None


def background_in(names: Sequence[str]) -> int | None:
    """The label of BACKGROUND among the names of classes, None if it is none of them."""
    return names.index(BACKGROUND) if BACKGROUND in names else None


def wrong_more_names(known: Sequence[str], more: Sequence[str]) -> str | None:
    """The reason why a delta of the classes `known` cannot get images of `more` beside them, or None."""
    new = [name for name in more if name not in known]
    if BACKGROUND in new:
        return f"{BACKGROUND!r} says what is no answer, which is found out when it is adapted with the others"
    return wrong_class_names(more) or wrong_class_names([*known, *new])


def is_text(name) -> bool:
    """Whether a file can store `name`. Python strings may hold a lone surrogate; UTF-8 cannot."""
    try:
        name.encode()
    except (AttributeError, UnicodeEncodeError):
        return False
    return True
