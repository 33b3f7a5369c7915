"""Sets of photographs: FGVC-Aircraft, VGG Flowers, CUB-200-2011, DTD, FGVCx Fungi and objects of MSCOCO."""

import io
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.extras import install
from tinytrain.base.files import read_bytes
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.meta_dataset.listing import (
    Row,
    broken,
    images_in,
    listing_of,
    names_in,
    read_json,
    read_lines,
)

MAX_LABELS = 2**16  # bytes of a .mat file, which may unpack to a thousand times as many; flowers has 502
BOX_SCALE = 1.2  # of MSCOCO's boxes, around their centre, as in Meta-Dataset


def aircraft(root: Path) -> Dataset:
    """``data/images_variant_{trainval,test}.txt`` and ``data/images_box.txt``; ``data/images/<id>.jpg``.

    Cut to the box of the aircraft, as in Meta-Dataset: the lowest 20 rows of a file name its owner.
    """
    path = root / "data" / "images_box.txt"
    boxes = {name: _whole_numbers(path, box) for name, *box in read_lines(path, 5)}
    rows = []
    for part in ("trainval", "test"):
        path = root / "data" / f"images_variant_{part}.txt"
        for name, variant in read_lines(path, 2):
            if name not in boxes:
                raise broken(path, f"names image {name!r}, which has no box in images_box.txt")
            rows.append(Row(variant, f"data/images/{name}.jpg", box=boxes[name]))
    return listing_of(root, rows)


def flowers(root: Path) -> Dataset:
    """``imagelabels.mat``: label of ``jpg/image_00001.jpg`` and so on. Classes are ``001`` to ``102``."""
    labels = read_mat(root / "imagelabels.mat", "labels").ravel()
    rows = (Row(f"{int(label):03d}", f"jpg/image_{k:05d}.jpg") for k, label in enumerate(labels, 1))
    return listing_of(root, rows)


def read_mat(path: Path, name: str) -> np.ndarray:
    """The array (m, n) of numbers called `name` of a MATLAB 5 file.

    Raises InputError, ``package-missing`` without scipy.
    """
    data = read_bytes(path, MAX_LABELS)
    try:
        from scipy.io import loadmat
    except ModuleNotFoundError:
        why = f"{str(path)!r} needs the package scipy; run {install('data')}"
        raise InputError("package-missing", why) from None
    try:
        array = loadmat(io.BytesIO(data), variable_names=[name])[name]
        if array.dtype.kind not in "iuf" or array.ndim != 2:
            raise ValueError(f"{array.shape} of {array.dtype}")
    except Exception as error:  # a damaged file raises anything
        why = f"{type(error).__name__}: {one_line(error, 100)}"
        raise broken(path, f"is no MATLAB 5 file with an array {name!r} of numbers ({why})") from error
    return array


def birds(root: Path) -> Dataset:
    """``images.txt``: number and ``<class>/<file>`` below ``images``; whole images, as in Meta-Dataset."""
    files = [name for _, name in read_lines(root / "images.txt", 2)]
    return listing_of(root, [Row(name.partition("/")[0], f"images/{name}") for name in files])


def textures(root: Path) -> Dataset:
    """``images/<class>/<file>.jpg``."""
    classes = names_in(root / "images")
    return listing_of(root, [Row(c, path) for c in classes for path in images_in(root, f"images/{c}")])


def fungi(root: Path) -> Dataset:
    """``train.json`` and ``val.json``, laid out as MSCOCO's. Two species share a name: numbers tell apart."""
    rows: list[Row] = []
    for name in ("train.json", "val.json"):
        content = read_json(root / name)
        try:
            classes = {c["id"]: f"{c['id']:04d}.{c['name']}" for c in content["categories"]}
            files = {image["id"]: image["file_name"] for image in content["images"]}
            rows += [Row(classes[a["category_id"]], files[a["image_id"]]) for a in content["annotations"]]
        except (KeyError, TypeError, ValueError) as error:
            raise _not_as_described(root / name, error) from error
    return listing_of(root, rows)


def objects(root: Path) -> Dataset:
    """``train2017/<id>.jpg`` and ``instances_train2017.json``, there or in ``annotations``.

    One image per annotated object, cut out with a fifth more around it. Objects of one file form a group.
    """
    inside = root / "annotations" / "instances_train2017.json"
    path = inside if inside.is_file() else root / "instances_train2017.json"
    # Outlines are nine tenths of the file: each is dropped as soon as it is parsed.
    content = read_json(path, lambda found: {k: v for k, v in found.items() if k != "segmentation"})
    try:
        classes = {c["id"]: c["name"] for c in content["categories"]}
        rows = [
            Row(
                classes[a["category_id"]],
                f"train2017/{a['image_id']:012d}.jpg",
                a["image_id"],
                _box(a["bbox"]),
            )
            for a in content["annotations"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise _not_as_described(path, error) from error
    return listing_of(root, rows)


def _box(box: list[float]) -> tuple[int, int, int, int]:
    """Edges of the pixels that the enlarged (left, top, width, height) touches; may pass the image's."""
    x, y, width, height = box
    left, top = x - width * (BOX_SCALE - 1) / 2, y - height * (BOX_SCALE - 1) / 2
    right, bottom = left + width * BOX_SCALE, top + height * BOX_SCALE
    return round(left - 0.5), round(top - 0.5), round(right - 0.5) + 1, round(bottom - 0.5) + 1


def _whole_numbers(path: Path, parts: list[str]) -> tuple[int, int, int, int]:
    try:
        return tuple(int(part) for part in parts)
    except ValueError as error:
        raise broken(path, f"holds {' '.join(parts)!r} where four numbers should be") from error


def _not_as_described(path: Path, error: Exception):
    return broken(path, f"is not laid out as described ({type(error).__name__}: {error})")
