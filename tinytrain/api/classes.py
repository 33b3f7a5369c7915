"""`tinytrain.rename` and `tinytrain.forget`: those of `tinytrain.delta`, also for the path of a delta."""

import os

from tinytrain.api.opening import open_delta
from tinytrain.delta import classes
from tinytrain.delta.delta import Delta
from tinytrain.report import Report


def rename(delta: str | os.PathLike | Delta | Report, old: str, new: str) -> Delta:
    """`delta` whose class `old` is called `new`; nothing else changes.

    `delta` is as in `Predictor`. Raises InputError ``unknown-class`` or ``class-names``.
    """
    return classes.rename(open_delta(delta), old, new)


def forget(delta: str | os.PathLike | Delta | Report, name: str) -> Delta:
    """`delta` without class `name`; ``delta.report["forgotten"]["traces"]`` says what still depends on it.

    `delta` is as in `Predictor`. Raises InputError ``unknown-class``, or ``too-few-classes`` if fewer than
    two classes would remain.
    """
    return classes.forget(open_delta(delta), name)
