"""Looking at a dataset: a contact sheet, and an export to a folder per class."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.samplers import shuffled
from tinytrain.errors import StorageError, UsageError
from tinytrain.seeds import rng_for

GAP = 2  # pixels between pictures


def contact_sheet(
    dataset: Dataset, classes: Sequence[int] | None = None, per_class: int = 8, size: int = 96, seed: int = 0
) -> Image.Image:
    """One row per class, `per_class` pictures drawn at random side by side, as an RGB PIL image.

    Rows of classes with fewer pictures end early. Raises UsageError for classes that do not exist.
    """
    drawn = _drawn(dataset, classes, per_class, seed)
    step = size + GAP
    sheet = np.full((len(drawn) * step - GAP, per_class * step - GAP, 3), 255, np.uint8)
    for row, (_, indices) in enumerate(drawn):
        for column, i in enumerate(indices):
            y, x = row * step, column * step
            sheet[y : y + size, x : x + size] = dataset.read(int(i), size)
    return Image.fromarray(sheet)


def export(
    dataset: Dataset,
    folder: str | os.PathLike,
    per_class: int = 20,
    size: int = 128,
    classes: Sequence[int] | None = None,
    seed: int = 0,
) -> int:
    """Write pictures drawn at random as PNG, one folder per class; returns how many.

    `folder` must be empty or not exist, so that nothing of the user's is mixed or overwritten. A file
    appears under its name only when it is complete. Raises UsageError or StorageError.
    """
    root = Path(folder)
    drawn = _drawn(dataset, classes, per_class, seed)
    try:
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise UsageError("folder-not-empty", f"{str(root)!r} is not empty; name a new folder")
        for label, indices in drawn:
            class_folder = root / _folder_name(dataset.class_names[label], label)
            class_folder.mkdir()
            for number, i in enumerate(indices):
                _write_png(class_folder / f"{number:04d}.png", dataset.read(int(i), size))
    except OSError as error:
        raise StorageError(
            "export-failed", f"{str(root)!r} cannot be written ({error.strerror}); check it"
        ) from error
    return sum(len(indices) for _, indices in drawn)


def _drawn(dataset: Dataset, classes, per_class: int, seed: int) -> list[tuple[int, np.ndarray]]:
    """(class, indices) of the pictures to show."""
    classes = range(dataset.n_classes) if classes is None else classes
    if per_class < 1 or not len(classes) or min(classes) < 0 or max(classes) >= dataset.n_classes:
        raise UsageError(
            "bad-classes",
            f"{per_class} of classes {list(classes)} asked for; there are classes 0..{dataset.n_classes - 1}",
        )
    return [
        (c, shuffled(dataset.by_class[c], rng_for(seed, "preview", dataset.name, c))[:per_class])
        for c in classes
    ]


def _folder_name(class_name: str, label: int) -> str:
    """A name that is safe on every file system; the number keeps the order and makes it unique."""
    safe = "".join(ch if ch.isalnum() or ch in " -_" else "_" for ch in class_name)
    return f"{label:04d} {safe[:60].strip()}"


def _write_png(path: Path, picture: np.ndarray) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            Image.fromarray(picture).save(file, "PNG")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
