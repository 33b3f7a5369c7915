"""A `Dataset` to a pack: one .npz file in the layout that `tinytrain.datasets.packs` reads.

Images go through a temporary file, so memory does not grow with the pack. The same images in the same
order give the same bytes.
"""

import io
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.files import replacing, write_failed
from tinytrain.base.progress import OnProgress, silent
from tinytrain.base.random_streams import rng_for
from tinytrain.base.units import format_bytes
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.packs import MAX_BYTES
from tinytrain.datasets.samplers import shuffled
from tinytrain.episode.decode import grey

SIZE, QUALITY = 84, 95  # of the packs that RESULTS.md was measured with
DATE = (1980, 1, 1, 0, 0, 0)  # of every member: the time of writing would make other bytes
BLOCK = 2**20


@dataclass(frozen=True)
class PackForm:
    """What is stored: images of `size` pixels a side, as JPEG of this `quality` or as `raw` pixels, in colour
    or `grey`; of each class at most `per_class` images, drawn at random by `seed`.
    """

    size: int = SIZE
    quality: int = QUALITY
    raw: bool = False
    grey: bool = False
    per_class: int | None = None
    seed: int = 0


@dataclass
class _Spool:
    """Stored images one after another, the bytes of each, and their indices in the dataset."""

    file: BinaryIO
    sizes: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)


def write_pack(
    dataset: Dataset,
    path: str | os.PathLike,
    form: PackForm,
    more: dict[str, np.ndarray] | None = None,
    skip: Callable[[str], None] = lambda reason: None,
    progress: OnProgress = silent,
) -> int:
    """Write a pack of all classes of `dataset`; returns how many images it has.

    `more` has further arrays. `skip` is told which image is left out and why. Raises InputError
    ``too-few-images`` for a class of which no image can be decoded, UsageError, StorageError.
    """
    path = Path(path)
    chosen = np.concatenate([_drawn(dataset, c, form) for c in range(dataset.n_classes)]).tolist()
    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            spool = _Spool(file)
            _store_images(dataset, chosen, form, spool, skip, progress)
            labels = dataset.labels[spool.kept].astype(np.int32)
            _refuse_empty(dataset, labels)
            arrays = {"labels": labels, "class_names": np.array(dataset.class_names), **(more or {})}
            arrays |= _families(dataset) | _groups(dataset, spool.kept, labels)
            with replacing(path) as target:
                _write_members(target, spool, form, arrays)
    except OSError as error:
        raise write_failed(path, error) from error
    return len(spool.kept)


def _drawn(dataset: Dataset, c: int, form: PackForm) -> np.ndarray:
    """Images of class c in the order of the dataset: all of them, or some of each group in turn."""
    members = dataset.by_class[c]
    if form.per_class is None or len(members) <= form.per_class:
        return members
    order = shuffled(members, rng_for(form.seed, "pack", dataset.class_names[c]))
    if dataset.groups is not None:
        turns: dict[int, int] = {}
        turn = []
        for i in order:
            group = int(dataset.groups[i])
            turns[group] = turns.get(group, 0) + 1
            turn.append(turns[group])
        order = order[np.argsort(turn, kind="stable")]
    return np.sort(order[: form.per_class])


def _store_images(
    dataset, chosen: list[int], form: PackForm, spool: _Spool, skip, progress: OnProgress
) -> None:
    total = 0
    for done, i in enumerate(chosen, 1):
        try:
            image = dataset.read(i, form.size)
        except InputError as error:
            skip(f"skipped {error}")
        else:
            data = _encoded(image, form)
            total += len(data)
            if total > MAX_BYTES:
                raise UsageError(
                    "usage",
                    f"{done:,} of {len(chosen):,} images take more than {format_bytes(MAX_BYTES)}, the "
                    "limit of a pack; ask for fewer per class or smaller ones",
                )
            spool.file.write(data)
            spool.sizes.append(len(data))
            spool.kept.append(i)
        progress("images", done, len(chosen), None)


def _encoded(image: np.ndarray, form: PackForm) -> bytes:
    pixels = grey(image) if form.grey else image
    if form.raw:
        return pixels.tobytes()
    from PIL import Image

    file = io.BytesIO()
    flat = pixels[..., 0] if form.grey else pixels
    Image.fromarray(flat).save(file, "JPEG", quality=form.quality, subsampling=0)
    return file.getvalue()


def _refuse_empty(dataset: Dataset, labels: np.ndarray) -> None:
    counts = np.bincount(labels, minlength=dataset.n_classes)
    if not counts.all():
        name = dataset.class_names[int(counts.argmin())]
        raise InputError("too-few-images", f"class {name!r} has 0 usable images; add some or remove it")


def _families(dataset: Dataset) -> dict[str, np.ndarray]:
    return {} if dataset.families is None else {"class_alphabet": dataset.families.astype(np.int32)}


def _groups(dataset: Dataset, kept: list[int], labels: np.ndarray) -> dict[str, np.ndarray]:
    """The groups as ``track``, which counts inside a class, or as ``speaker``, which spans classes."""
    if dataset.groups is None:
        return {}
    groups = np.unique(dataset.groups[kept], return_inverse=True)[1].reshape(-1).astype(np.int32)
    pairs = np.unique(np.stack([groups, labels], axis=1), axis=0)
    return {"speaker" if len(pairs) > len(np.unique(groups)) else "track": groups}


def _write_members(target: BinaryIO, spool: _Spool, form: PackForm, arrays: dict[str, np.ndarray]) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        spool.file.seek(0)
        if form.raw:
            shape = (len(spool.kept), form.size, form.size, 1 if form.grey else 3)
            _write_member(archive, "images", np.dtype(np.uint8), shape, spool.file)
        else:
            offsets = np.concatenate([[0], np.cumsum(spool.sizes, dtype=np.int64)])
            _write_member(archive, "data", np.dtype(np.uint8), (int(offsets[-1]),), spool.file)
            arrays = {"offsets": offsets, **arrays}
        for name, array in arrays.items():
            _write_member(archive, name, array.dtype, array.shape, io.BytesIO(array.tobytes()))


def _write_member(archive, name: str, dtype: np.dtype, shape: tuple[int, ...], content: BinaryIO) -> None:
    member = zipfile.ZipInfo(f"{name}.npy", DATE)
    # JPEG files do not get smaller.
    member.compress_type = zipfile.ZIP_STORED if name == "data" else zipfile.ZIP_DEFLATED
    with archive.open(member, "w") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        while block := content.read(BLOCK):
            file.write(block)
