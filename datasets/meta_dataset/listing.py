"""What lies in a downloaded data set: every image with its class, found by names alone, decoded later."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.folder_layout import printable
from tinytrain.episode.decode import SUFFIXES, load_image
from tinytrain.episode.input_facts import Skipped

MAX_LIST = 2**30  # bytes of a list file; the largest known one, the annotations of MSCOCO, holds 469 MB


class Row(NamedTuple):
    """One image: its class, its file below the root, and what it must not be separated from.

    `box` (left, top, right, bottom) in pixels cuts the image out of its file.
    """

    class_name: str
    path: str
    group: str | int | None = None
    box: tuple[int, int, int, int] | None = None


def listing_of(root: Path, rows: Iterable[Row]) -> Dataset:
    """All files below `root` that are there; those that are not are skipped. Classes are sorted by name.

    A listing is a Dataset without a name, families, licence and citation.
    """
    folders: dict[str, set[str]] = {}
    kept, missing = [], []
    for row in rows:
        folder, name = os.path.split(row.path)
        if folder not in folders:
            folders[folder] = set(names_in(root / folder))
        if name in folders[folder]:
            kept.append(row)
        else:
            missing.append(row.path)
    classes = sorted({row.class_name for row in kept})
    number = {name: k for k, name in enumerate(classes)}
    grouped = bool(kept) and kept[0].group is not None
    return Dataset(
        name="",
        class_names=tuple(map(printable, classes)),
        labels=np.array([number[row.class_name] for row in kept], dtype=np.int32),
        names=[printable(row.path) for row in kept],
        read=lambda i, size: load_image(root / kept[i].path, size, box=kept[i].box),
        groups=_numbered([row.group for row in kept]) if grouped else None,
        provenance=Provenance(skipped=tuple(Skipped(path, "is missing", "missing") for path in missing)),
    )


def _numbered(keys: Sequence) -> np.ndarray:
    """Equal keys get equal numbers, (n,) int32."""
    numbers: dict = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int32)


def names_in(folder: Path) -> list[str]:
    """Sorted names in a folder without hidden ones; none if there is no such folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def images_in(root: Path, folder: str) -> list[str]:
    """Image files in a folder below `root`, as sorted paths from the root."""
    return [f"{folder}/{name}" for name in names_in(root / folder) if name.lower().endswith(SUFFIXES)]


def read_lines(path: Path, fields: int) -> list[list[str]]:
    """Lines of a text file, each cut at blanks into `fields` parts; the last part keeps its blanks."""
    try:
        lines = read_bytes(path, MAX_LIST).decode().splitlines()
    except UnicodeDecodeError as error:
        raise broken(path, f"is no text ({error.reason} at byte {error.start})") from error
    parts = [line.strip().split(" ", fields - 1) for line in lines]
    for number, part in enumerate(parts, 1):
        if len(part) != fields:
            raise broken(path, f"has {len(part)} instead of {fields} parts in line {number}")
    return parts


def read_json(path: Path, object_hook=None) -> dict:
    """A JSON file that holds one object."""
    try:
        content = json.loads(read_bytes(path, MAX_LIST), object_hook=object_hook)
    except (ValueError, RecursionError) as error:
        raise broken(path, f"is no JSON ({error})") from error
    if not isinstance(content, dict):
        raise broken(path, "holds no JSON object")
    return content


def broken(path: Path, what: str) -> InputError:
    return InputError("file-damaged", f"{str(path)!r} {what}; fetch it again")
