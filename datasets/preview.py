"""Looking at a dataset: a contact sheet, and an export to a folder per class."""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, features

from tinytrain.base.errors import InputError, StorageError, UsageError, visible
from tinytrain.base.files import write_bytes
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.samplers import shuffled

GAP = 2  # pixels between images
LETTERS, LINE, CUT = (10, 24), 1.4, "..."  # least and most pixels of a letter, height of a line in letters
BITMAP_LINE = 14  # pixels of a line in the font of a pillow without FreeType
MAX_SIZE = 2048  # a side of an image: a generated one of that size is drawn in 400 MB
MAX_PIXELS = 64_000_000  # of a sheet, which is held whole
Skip = Callable[[str], None]


def ignore(reason: str) -> None:
    """Skips an image without a word."""


def contact_sheet(
    dataset: Dataset,
    classes: Sequence[int] | None = None,
    per_class: int = 8,
    size: int = 96,
    seed: int = 0,
    skip: Skip = ignore,
) -> Image.Image:
    """One row per class under its name, `per_class` images drawn at random, as an RGB PIL image.

    A name that is wider than the sheet is shortened; a letter that the font lacks is a box. Rows of classes
    with fewer images end early. `skip` is told why one cannot be decoded; another is drawn for it. Raises
    UsageError for classes that do not exist, and for a sheet that is too large.
    """
    _check_size(size)
    drawn = _drawn(dataset, classes, per_class, seed)
    font, line = _font(size)
    step = size + GAP
    height, width = len(drawn) * (line + step) - GAP, per_class * step - GAP
    if height * width > MAX_PIXELS:
        raise UsageError(
            "usage",
            f"{len(drawn)} rows of {per_class} images of {size} pixels make {width:,} x {height:,} pixels,"
            f" at most {MAX_PIXELS:,} are drawn; ask for fewer or smaller ones",
        )
    sheet = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(sheet)
    for row, (label, order) in enumerate(drawn):
        y = row * (line + step)
        pen.text((0, y), _fitting(visible(dataset.class_names[label]), pen, font, width), "black", font)
        for column, image in enumerate(_decoded(dataset, order, per_class, size, skip)):
            sheet.paste(Image.fromarray(image), (column * step, y + line))
    return sheet


def _font(size: int):
    """The font that is part of pillow, for images of this `size`, and the pixels of a line of it."""
    if not features.check("freetype2"):
        return ImageFont.load_default(), BITMAP_LINE
    letter = min(max(size // 8, LETTERS[0]), LETTERS[1])
    return ImageFont.load_default(letter), round(LINE * letter)


def _fitting(text: str, pen: ImageDraw.ImageDraw, font, width: int) -> str:
    """`text`, or as much of its beginning as fits in `width` pixels."""
    if not isinstance(font, ImageFont.FreeTypeFont):
        text = text.encode("latin-1", "replace").decode("latin-1")
    if pen.textlength(text, font) <= width:
        return text
    kept = len(text)
    while kept and pen.textlength(text[:kept] + CUT, font) > width:
        kept -= 1
    return text[:kept] + CUT if kept else ""


def export(
    dataset: Dataset,
    folder: str | os.PathLike,
    per_class: int = 20,
    size: int = 128,
    classes: Sequence[int] | None = None,
    seed: int = 0,
    skip: Skip = ignore,
) -> int:
    """Write images drawn at random as PNG, one folder per class; returns how many.

    `folder` must be empty or not exist, so that nothing of the user's is mixed or overwritten. A file
    appears under its name only when it is complete. `skip` as for `contact_sheet`. Raises UsageError or
    StorageError.
    """
    _check_size(size)
    drawn = _drawn(dataset, classes, per_class, seed)
    names = _folder_names([dataset.class_names[label] for label, _ in drawn])
    decoded = (_decoded(dataset, order, per_class, size, skip) for _, order in drawn)
    made = (map(_png, images) for images in decoded)
    return write_classes(folder, zip(names, made, strict=True), ".png", max(2, len(str(per_class))))


def write_classes(
    folder: str | os.PathLike, classes: Iterable[tuple[str, Iterable[bytes]]], suffix: str, digits: int
) -> int:
    """Write the files of each class into new folders, with their number in `digits`; returns how many.

    Raises UsageError if something is in `folder`, StorageError if writing fails.
    """
    root, count = Path(folder), 0
    try:
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise UsageError("usage", f"{str(root)!r} is not empty; name a new folder")
        for name, files in classes:
            (root / name).mkdir()
            for number, content in enumerate(files, 1):
                write_bytes(root / name / f"{name}-{number:0{digits}d}{suffix}", content)
                count += 1
    except OSError as error:
        raise StorageError(
            "write-failed", f"{str(root)!r} cannot be written ({error.strerror}); check it"
        ) from error
    return count


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise UsageError("usage", f"images of {size:,} pixels a side asked for; give at most {MAX_SIZE:,}")


def _drawn(dataset: Dataset, classes, per_class: int, seed: int) -> list[tuple[int, np.ndarray]]:
    """(class, indices of its images in the order in which they are drawn)."""
    classes = range(dataset.n_classes) if classes is None else classes
    if per_class < 1 or not len(classes) or min(classes) < 0 or max(classes) >= dataset.n_classes:
        raise UsageError(
            "usage",
            f"{per_class} of classes {list(classes)} asked for; there are classes 0..{dataset.n_classes - 1}",
        )
    return [(c, shuffled(dataset.by_class[c], rng_for(seed, "preview", dataset.name, c))) for c in classes]


def _decoded(dataset: Dataset, order, count: int, size: int, skip: Skip) -> Iterator[np.ndarray]:
    """The first `count` images in `order` that can be decoded. Raises InputError if none of them can."""
    left, last = count, None
    for i in order:
        if not left:
            return
        try:
            image = dataset.read(int(i), size)
        except InputError as error:
            skip(f"skipped {error}")
            last = error
            continue
        left -= 1
        yield image
    if last and left == count:
        raise last


def _folder_names(class_names: Sequence[str]) -> list[str]:
    """Names that are safe on every file system and in a shell, without a number at the end if all differ so.

    >>> _folder_names(["oval 0", "heart 0"]), _folder_names(["leaf 0", "leaf 1"]), _folder_names(["a/", "a:"])
    (['oval', 'heart'], ['leaf-0', 'leaf-1'], ['0000-a_', '0001-a_'])
    """
    safe = ["".join(ch if ch.isalnum() else "-" if ch in " -" else "_" for ch in n)[:60] for n in class_names]
    short = [re.sub("-[0-9]+$", "", name) for name in safe]
    for names in (short, safe):
        unique = len({name.casefold() for name in names}) == len(names)
        if unique and all(name.strip("-_") and not name.startswith("-") for name in names):
            return names
    return [f"{k:04d}-{name}" for k, name in enumerate(safe)]


def _png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()
