"""Sets of drawn and printed shapes: Omniglot, QuickDraw and the traffic signs of GTSRB."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.datasets.dataset import Dataset, Made
from tinytrain.datasets.folder_layout import printable
from tinytrain.datasets.meta_dataset.listing import Row, broken, images_in, listing_of, names_in
from tinytrain.episode.decode import fit

SIDE = 28  # pixels of a QuickDraw bitmap
SPACE = 256  # coordinates of a simplified drawing run from 0 to 255
STROKE = 16  # width of a stroke in these coordinates, near that of the bitmaps
PREFIXES = ("full_numpy_bitmap_", "full_simplified_", "full-numpy_bitmap-", "full-simplified-")


EVALUATION, BACKGROUND = "images_evaluation", "images_background"


def omniglot(root: Path, parts: Sequence[str] = (EVALUATION,)) -> Dataset:
    """``images_evaluation/<alphabet>/<character>/<number>_<drawer>.png``, all of it tested on.

    What one person drew of an alphabet forms a group: stricter than Meta-Dataset, which mixes drawers.
    """
    rows = []
    for part in parts:
        for alphabet in names_in(root / part):
            for character in names_in(root / part / alphabet):
                for path in images_in(root, f"{part}/{alphabet}/{character}"):
                    drawer = Path(path).stem.rpartition("_")[2]
                    rows.append(Row(f"{alphabet}/{character}", path, f"{alphabet} {drawer}"))
    return listing_of(root, rows)


def traffic_signs(root: Path) -> Dataset:
    """``Final_Training/Images/<class>/<track>_<frame>.ppm``. The frames of a track show one sign: a group."""
    rows = []
    for sign in names_in(root / "Final_Training" / "Images"):
        for path in images_in(root, f"Final_Training/Images/{sign}"):
            rows.append(Row(sign, path, f"{sign} {Path(path).name.partition('_')[0]}"))
    return listing_of(root, rows)


def quickdraw(root: Path) -> Dataset:
    """A file per class: bitmaps ``<class>.npy``, or simplified drawings ``<class>.ndjson``.

    Bitmaps are 28 x 28, white on black, and stay on the disk; drawings are painted alike when they are read.
    Where a class has both, the bitmaps are used.
    """
    files: dict[str, str] = {}
    for name in names_in(root):
        stem, suffix = os.path.splitext(printable(name))
        if suffix in (".npy", ".ndjson"):
            for prefix in PREFIXES:
                stem = stem.removeprefix(prefix)
            if suffix == ".npy" or stem not in files:
                files[stem] = name
    classes = sorted(files)
    sheets = [SHEETS[Path(files[c]).suffix](root / files[c]) for c in classes]
    counts = [len(sheet) for sheet in sheets]
    ends = np.cumsum(counts)

    def of(i: int) -> tuple[int, int]:
        c = int(np.searchsorted(ends, i, side="right"))
        return c, int(i - ends[c] + counts[c])

    def read(i: int, size: int) -> np.ndarray:
        c, k = of(i)
        return fit(sheets[c][k], size)

    def name_of(i: int) -> str:
        c, k = of(i)
        return f"{classes[c]}/{k:06d}"

    return Dataset(
        name="",
        class_names=tuple(classes),
        labels=np.repeat(np.arange(len(classes), dtype=np.int32), counts),
        names=Made(sum(counts), name_of),
        read=read,
    )


def _bitmaps(path: Path) -> Sequence[np.ndarray]:
    """(n, 28, 28) uint8, mapped from the file."""
    try:
        sheet = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise broken(path, f"is no .npy file ({error})") from error
    if sheet.dtype != np.uint8 or sheet.ndim != 2 or sheet.shape[1] != SIDE**2:
        raise broken(path, f"holds {sheet.shape} of {sheet.dtype}, expected (n, {SIDE**2}) of uint8")
    return sheet.reshape(-1, SIDE, SIDE)


class _Drawings:
    """The drawings of an .ndjson file, one per line, painted when they are asked for."""

    def __init__(self, path: Path):
        self.path = path
        starts = [0]
        try:
            with open(path, "rb") as file:
                for line in file:
                    starts.append(starts[-1] + len(line))
        except OSError as error:
            raise broken(path, f"cannot be read ({error.strerror})") from error
        self.starts = np.array(starts, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, k: int) -> np.ndarray:
        """Drawing k as uint8 (256, 256), white on black. Raises InputError."""
        with open(self.path, "rb") as file:
            file.seek(int(self.starts[k]))
            line = file.read(int(self.starts[k + 1] - self.starts[k]))
        try:
            return _painted(json.loads(line)["drawing"])
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise InputError(
                "image-unreadable", f"line {k + 1} of {str(self.path)!r} is no drawing; fetch the file again"
            ) from error


def _painted(strokes: list) -> np.ndarray:
    from PIL import Image, ImageDraw

    image = Image.new("L", (SPACE, SPACE))
    pen = ImageDraw.Draw(image)
    for xs, ys in strokes:
        points = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
        pen.line(points * (2 if len(points) == 1 else 1), fill=255, width=STROKE, joint="curve")
    return np.array(image)


SHEETS = {".npy": _bitmaps, ".ndjson": _Drawings}
