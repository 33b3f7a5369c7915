"""Images as people have them: paths, bytes of files, PIL images, arrays, and lists of these."""

import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode import Size
from tinytrain.episode.decode import convert, fit, load_image
from tinytrain.episode.episode import Images

KINDS = "a path, the bytes of an image file, a PIL image or a uint8 array (rows, columns, 3) in RGB order"


def is_single(value) -> bool:
    """Whether `value` is one image, not a list of images.

    An array of 2 axes is a grey image; one of 3 axes is an image if the last axis has 1 or 3 channels. Raises
    InputError ``bad-value`` for 3 axes with another last one, which could be either.
    """
    if isinstance(value, str | os.PathLike | bytes | bytearray) or _is_pil(value):
        return True
    if not isinstance(value, np.ndarray):
        return False
    if value.ndim == 3 and value.shape[2] not in (1, 3):
        raise InputError(
            "bad-value",
            f"an array of {_shape(value)} is neither an image (rows, columns, 3) nor a list of images; for"
            " grey images give (n, rows, columns, 1)",
        )
    return value.ndim in (2, 3)


def images_of(values: Iterable, labels: np.ndarray | None = None, names: Sequence[str] = ()) -> Images:
    """`Images` of a list, or of an array whose first axis counts images; `labels` (n,), by default all 0.

    `names` are those in messages; by default paths, or "image 0" and so on.

    Each value is a path, the bytes of an image file, a PIL image, or a uint8 array: (rows, columns, 3) in RGB
    order, (rows, columns, 1) or (rows, columns). A table of one column is that column. Files are opened when
    their image is read. Raises InputError ``bad-value`` for anything else, also for a single image.
    """
    values = column_of(values)
    if isinstance(values, str | bytes | bytearray | os.PathLike) or not isinstance(values, Iterable):
        raise InputError("bad-value", f"{type(values).__name__} given; give a list, each item {KINDS}")
    if isinstance(values, np.ndarray) and (
        not values.ndim or (values.ndim == 3 and values.shape[2] in (1, 3))
    ):
        # Rows of one image are no grey images.
        raise InputError("bad-value", f"an array of {_shape(values)} is no list of images; give [image]")
    items = list(values)
    checked = tuple(_checked_name(item, i) for i, item in enumerate(items))
    names = tuple(names) or checked
    labels = np.zeros(len(items), np.int32) if labels is None else labels
    return Images(labels, names, partial(_read, items, names))


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


def _is_pil(value) -> bool:
    """Whether `value` is a PIL image. PIL is not imported for it: without PIL there are none."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def _checked_name(item, i: int) -> str:
    """The name of image i of a list. Raises InputError if the item is no image."""
    if isinstance(item, str | os.PathLike):
        return os.fsencode(item).decode("utf-8", "backslashreplace")  # a name that can be printed
    if isinstance(item, bytes | bytearray) or _is_pil(item):
        return f"image {i}"
    if not isinstance(item, np.ndarray):
        raise InputError("bad-value", f"image {i} is a value of type {type(item).__name__}; give {KINDS}")
    grey = item.ndim == 2
    if item.dtype != np.uint8 or not (grey or (item.ndim == 3 and item.shape[2] in (1, 3))) or not item.size:
        raise InputError("bad-value", f"image {i} is a {item.dtype} array of {_shape(item)}; give {KINDS}")
    return f"image {i}"


def _shape(array: np.ndarray) -> str:
    return " x ".join(map(str, array.shape)) or "no axis"


def _read(items: list, names: tuple[str, ...], i: int, size: Size) -> np.ndarray:
    item, name = items[i], names[i]
    if isinstance(item, np.ndarray):
        return fit(item, size)
    if _is_pil(item):
        return convert(item, size, name)
    return load_image(bytes(item) if isinstance(item, bytearray) else item, size, name)
