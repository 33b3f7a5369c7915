"""Images, or another kind, as people have them: paths, bytes of files, PIL images, arrays, and lists."""

import os
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode.episode import Images
from tinytrain.episode.kinds import kind_of
from tinytrain.network.input_spec import IMAGE


def is_single(value, kind: str = IMAGE) -> bool:
    """Whether `value` is one image, not a list. Raises InputError ``bad-value`` if it could be either."""
    if isinstance(value, np.ndarray):
        return kind_of(kind).is_single(value)
    return isinstance(value, str | os.PathLike) or kind_of(kind).takes(value)


def images_of(
    values: Iterable, labels: np.ndarray | None = None, names: Sequence[str] = (), kind: str = IMAGE
) -> Images:
    """`Images` of a list, or of an array whose first axis counts images; `labels` (n,), by default all 0.

    `names` are those in messages; by default paths, or "image 0" and so on.

    Each value is what `Kind.given` says: a path, the bytes of an image file, a PIL image, or a uint8 array:
    (rows, columns, 3) in RGB order, (rows, columns, 1) or (rows, columns). A table of one column is that
    column. Files are opened when their image is read. Raises InputError ``bad-value`` for anything else, also
    for a single image.
    """
    found, values = kind_of(kind), column_of(values)
    if isinstance(values, str | bytes | bytearray | os.PathLike) or not isinstance(values, Iterable):
        raise InputError("bad-value", f"{type(values).__name__} given; give a list, each item {found.given}")
    if isinstance(values, np.ndarray) and (not values.ndim or (values.ndim == 3 and _is_one(values, found))):
        # Rows of one image are no grey images.
        what = f"is no list of {found.plural}; give [{found.noun}]"
        raise InputError("bad-value", f"an array of {_shape(values)} {what}")
    items = list(values)
    checked = tuple(_checked_name(item, i, found) for i, item in enumerate(items))
    names = tuple(names) or checked
    labels = np.zeros(len(items), np.int32) if labels is None else labels
    return Images(labels, names, partial(_read, items, names, kind), kind)


def _is_one(value: np.ndarray, kind) -> bool:
    """Whether it is surely one item: what could be either is a list here."""
    try:
        return kind.is_single(value)
    except InputError:
        return False


def column_of(values):
    """`values`, or of a table such as a DataFrame its only column: iterated, it would give names of columns.

    Raises InputError ``bad-value`` for a table of several columns.
    """
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind not in "OUS":
        return values
    if values.shape[1] != 1:
        raise InputError(
            "bad-value",
            f"a table of {values.shape[1]} columns given; give the one with the images, as in table['path']",
        )
    return values[:, 0]


def _checked_name(item, i: int, kind) -> str:
    """The name of item i of a list. Raises InputError if it is none of this kind."""
    if isinstance(item, str | os.PathLike):
        return os.fsencode(item).decode("utf-8", "backslashreplace")  # a name that can be printed
    if kind.takes(item):
        return f"{kind.noun} {i}"
    is_array = isinstance(item, np.ndarray)
    what = f"{item.dtype} array of {_shape(item)}" if is_array else f"value of type {type(item).__name__}"
    raise InputError("bad-value", f"{kind.noun} {i} is a {what}; give {kind.given}")


def _shape(array: np.ndarray) -> str:
    return " x ".join(map(str, array.shape)) or "no axis"


def _read(items: list, names: tuple[str, ...], kind: str, i: int, asked) -> np.ndarray:
    return kind_of(kind).item(items[i], asked, names[i])
