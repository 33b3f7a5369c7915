"""Photographs that anybody may train on and pass on: what is taken of which public repository.

``tinytrain data pack free_photos.npz free_photos:DIR`` makes one pack of the clones in DIR. No class of the
benchmarks is in it. Every file is checked: the same files in the same order give the same pack.
"""

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.duplicates import groups_of, same_files
from tinytrain.datasets.folder_layout import printable
from tinytrain.episode.decode import load_image

NAME = "free_photos"
LICENCES = "CC BY 4.0, CC0, MIT"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A repository and what is taken of it: the JPEG files of `parts`, which are (prefix of names, folder).

    The class is the name of a file's folder, or what the table `labels` says. `dropped` has classes and files
    (``class/file``). `images` is the number of files and `digest` that of `listing_digest`.
    """

    address: str
    commit: str
    licence: str
    citation: str
    parts: tuple[tuple[str, str], ...]
    images: int
    digest: str
    labels: str = ""
    dropped: frozenset[str] = frozenset()

    @property
    def folder(self) -> str:
        """What ``git clone`` calls it."""
        return self.address.rsplit("/", 1)[1]

    @property
    def command(self) -> str:
        return f"git clone {self.address} && git -C {self.folder} checkout {self.commit}"


# The benchmarks have these. Some photographs of PACS were taken from Caltech-256.
TARGET_CLASSES = {
    "056.dog", "063.electric-guitar-101", "064.elephant-101", "084.giraffe", "105.horse", "118.iris",
    "159.people", "204.sunflower-101", "253.faces-easy-101", "254.greyhound",
}  # fmt: skip

SOURCES = {
    "caltech256": Source(
        address="https://github.com/Anirban2404/calTech_transferLearning",
        commit="3798e6107eafc82425ac88880051fb8b72f8eb91",
        licence="CC BY 4.0",
        citation="Griffin, Holub, Perona 2007, Caltech-256 (a fifth of it, 24 images of each class)",
        parts=tuple(
            ("", f"caltech_256_{part}") for part in ("train_10_1", "train_10_2", "val_3_1", "val_3_2")
        ),
        images=6020,
        digest="3d6a4a20c4ff28e80870486a583d8f5ada59fd251b1d68eb7d9494ac75f95d35",
        # This one is missing in some copies of the repository.
        dropped=frozenset(TARGET_CLASSES | {"073.fireworks/073_0054.jpg"}),
    ),
    "clothing": Source(
        address="https://github.com/alexeygrigorev/clothing-dataset",
        commit="7ed86a9cc56763b6acb35e41cb35184e43a5d218",
        licence="CC0",
        citation="Grigorev 2020, Clothing dataset",
        parts=(("", "images"),),
        images=5398,
        digest="249f33c0a6cc2b7c79de82eca6b8aa27749e70eccf728d549d36b95aa30f2721",
        labels="images.csv",
    ),
    "grocery": Source(
        address="https://github.com/marcusklasson/GroceryStoreDataset",
        commit="fc80ba90f803d79d0383df52c5a4ac5de99ff6fc",
        licence="MIT",
        citation="Klasson, Zhang, Kjellström 2019, A hierarchical grocery store image dataset",
        parts=(("test_", "dataset/test"), ("train_", "dataset/train"), ("val_", "dataset/val")),
        images=5421,
        digest="14ffd7f755185d3dfa789cdbb35d944e0e58a59c11a841d41f9c2db128c3fb51",
    ),
    "trash": Source(
        address="https://github.com/congduytran12/Trash-Classification-",
        commit="00212f2c18dcdb9045c74481eaae5baaf72537df",
        licence="MIT",
        citation="Thung, Yang 2016, TrashNet",
        parts=(("", "dataset-resized"),),
        images=2527,
        digest="47767ccb52f55311703ec4a8243cba4e2dd5621b9e1fba73fc487a5b69cd7575",
    ),
}
CITATIONS = "; ".join(source.citation for source in SOURCES.values())
UNSURE = {"skip", "not sure", "other"}  # of the labels of clothes


def open_free_photos(folder: Path) -> Dataset:
    """All sources, cloned into `folder`. Classes are ``source.class``, by name.

    Raises InputError ``file-missing`` for a source that is not there, with the command that gets it, and
    ``file-damaged`` if its files are others than those that were listed.
    """
    if missing := [s for s in SOURCES.values() if not (folder / s.folder).is_dir()]:
        commands = "; ".join(source.command for source in missing)
        raise InputError(
            "file-missing", f"{str(folder)!r} lacks {len(missing)} clones; run there: {commands}"
        )
    found: dict[str, dict[str, Path]] = {}
    for name, source in SOURCES.items():
        files = _files(folder / source.folder, source)
        _check(folder / source.folder, source, files)
        for (class_name, file_name), path in files.items():
            found.setdefault(f"{name}.{class_name}", {})[file_name] = path
    names = sorted(found)
    chosen = [(label, c, f) for label, c in enumerate(names) for f in sorted(found[c])]
    paths = [found[c][f] for _, c, f in chosen]
    labels = np.array([label for label, _, _ in chosen], dtype=np.int32)
    return Dataset(
        name=NAME,
        labels=labels,
        class_names=tuple(names),
        names=tuple(f"{c}/{printable(f)}" for _, c, f in chosen),
        read=lambda i, size: load_image(paths[i], size),
        groups=groups_of(same_files(paths), labels.tolist()),
        may_flip=True,
        provenance=Provenance(licence=LICENCES, citation=CITATIONS),
    )


def listing_digest(files: dict[tuple[str, str], Path]) -> str:
    """sha256 of the classes, names and contents of files."""
    total = hashlib.sha256()
    for class_name, file_name in sorted(files):
        with open(files[class_name, file_name], "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{class_name}/{file_name} {content}\n".encode())
    return total.hexdigest()


def _files(root: Path, source: Source) -> dict[tuple[str, str], Path]:
    """The files of a source by class and name; of two with the same name the last one."""
    labels = _labels(root, source)
    files = {}
    for prefix, folder in source.parts:
        for path in _images(root / folder):
            kept = labels.get(path.stem) if source.labels else path.parent.name
            name = f"{prefix}{path.name}"
            if kept is None or kept in source.dropped or f"{kept}/{name}" in source.dropped:
                continue
            short = kept.split(".", 1)[-1] if kept[:3].isdigit() else kept.lower()
            files[short, name] = path
    return files


def _images(folder: Path) -> Iterator[Path]:
    return (p for p in sorted(folder.rglob("*.jpg")) if p.is_file() and p.stat().st_size)


def _labels(root: Path, source: Source) -> dict[str, str]:
    """The class of each file by its name without the suffix. Raises InputError ``file-damaged``."""
    if not source.labels or not root.is_dir():
        return {}
    try:
        with open(root / source.labels, newline="", encoding="utf-8") as file:
            rows = [(row["image"], row["label"].lower()) for row in csv.DictReader(file)]
    except (OSError, KeyError, ValueError, AttributeError, csv.Error):
        raise _broken(root, source, f"has no table {source.labels} of images and labels") from None
    return {image: "other" if label in UNSURE else label for image, label in rows}


def _check(root: Path, source: Source, files: dict) -> None:
    if len(files) != source.images:
        raise _broken(root, source, f"has {len(files):,} of {source.images:,} images")
    if listing_digest(files) != source.digest:
        raise _broken(root, source, "has other images than those that were listed")


def _broken(root: Path, source: Source, what: str) -> InputError:
    return InputError("file-damaged", f"{str(root)!r} {what}; run {source.command} again")
