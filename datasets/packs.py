"""Data packs: one .npz file per domain, as raw pixels or as encoded JPEG files, to a `Dataset`.

raw:  `images` (n, h, w, 1 or 3) uint8
jpeg: `data` uint8, all encoded files one after another, and `offsets` int64 (n + 1,)
both: `labels` integer (n,), `class_names`; optional `track`, `speaker`, `class_split`, `class_alphabet`

A pack is checked as a whole before it is used. Nothing is unpickled, and no size in the file
is believed before it was compared with the bytes that are there.
"""

import os
import sys
import zipfile
from pathlib import Path

import numpy as np

from tinytrain.base.class_names import wrong_class_names
from tinytrain.base.errors import InputError, one_line
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.datasets.folder_layout import printable
from tinytrain.datasets.pack_table import PACKS, Pack
from tinytrain.episode.decode import fit, load_image
from tinytrain.episode.imagefile.stored import MAX_SIDE, PIXEL_BYTES

FOLDER_VARIABLE = "TINYTRAIN_DATA"
MAX_BYTES = 2**30  # all arrays of a pack together; the largest known one unpacks to 229 MB
MAX_HEADER = 10_000  # bytes of the header of an array, as in numpy
END_RECORD = 22  # bytes at the end of a zip file, before a comment
MAX_DIRECTORY = 2**16  # bytes of the list of members of a pack
MAX_IMAGE = 2**26  # bytes of an encoded image
MAX_PIXELS = PIXEL_BYTES // 7  # of a raw image: three bytes, and four if it is resized
# What numpy writes. Others cannot be told to unpack no more than so many bytes.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MEMBERS = ("images", "data", "offsets", "labels", "class_names")
OPTIONAL = ("track", "speaker", "class_split", "class_alphabet")


# Whether the same number means the same thing in every class (a speaker) or only in its own (a track).
GROUPS_SPAN_CLASSES = {"track": False, "speaker": True}


def load_pack(name_or_path: str | os.PathLike, data_dir: str | os.PathLike | None = None) -> Dataset:
    """The pack of that name in `data_dir` (default: the folder named by TINYTRAIN_DATA), or at a path.

    A file of a known name keeps its row of `PACKS`; an unknown one is never flipped and its
    `track` or `speaker` is respected. Raises InputError with code ``pack-missing`` or
    ``file-damaged``.
    """
    name = printable(Path(name_or_path).name.removesuffix(".npz"))
    row = PACKS.get(name, Pack(f"{name}.npz", False, "unknown", "unknown"))
    path = Path(name_or_path) if _is_path(name_or_path) else _in_data_folder(name, row, data_dir)
    try:
        return _dataset(name, row, _read_arrays(path))
    except _BrokenPackError as error:
        raise InputError("file-damaged", f"{str(path)!r}: {error}; fetch or build the pack again") from error


class _BrokenPackError(Exception):
    """Why a file is no pack; becomes an InputError that also names the file."""


def _is_path(name_or_path) -> bool:
    text = os.fspath(name_or_path)
    return os.sep in text or text.endswith(".npz")


def _in_data_folder(name: str, row: Pack, data_dir) -> Path:
    folder = data_dir or os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise InputError(
            "pack-missing",
            f"no folder to look for pack {name!r} in; set {FOLDER_VARIABLE} to the folder with {row.file}",
        )
    path = Path(folder) / row.file
    if not path.is_file():
        raise InputError(
            "pack-missing",
            f"no {row.file} in {str(folder)!r}; put it there or set {FOLDER_VARIABLE} to its folder",
        )
    return path


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The known arrays of an .npz file, with sizes checked before anything is allocated."""
    if not path.is_file():
        raise InputError("pack-missing", f"{str(path)!r} is no file; check the path")
    try:
        _check_directory(path)
        with zipfile.ZipFile(path) as archive:
            wanted = {key: f"{key}.npy" for key in MEMBERS + OPTIONAL}
            present = {key: member for key, member in wanted.items() if member in archive.namelist()}
            total = sum(archive.getinfo(member).file_size for member in present.values())
            if total > MAX_BYTES:
                raise _BrokenPackError(f"{total:,} bytes when unpacked, the limit is {MAX_BYTES:,}")
            return {key: _read_array(archive, member) for key, member in present.items()}
    except (_BrokenPackError, MemoryError):
        raise
    except Exception as error:
        # Not a list of classes: a damaged archive raises anything.
        raise _BrokenPackError(f"cannot be read ({one_line(error) or type(error).__name__})") from error


def _check_directory(path: Path) -> None:
    """Raises _BrokenPackError for a long list of members: zipfile would make an object of each."""
    with open(path, "rb") as file:
        file.seek(-min(path.stat().st_size, END_RECORD + 2**16), os.SEEK_END)
        end = file.read()
    at = end.rfind(b"PK\5\6")
    if at < 0:
        return  # no zip file at all
    if len(end) - at < END_RECORD:
        raise _BrokenPackError("its end is cut off")
    if end[max(0, at - 20) :].startswith(b"PK\6\7"):  # lengths of 64 bits are stated elsewhere
        raise _BrokenPackError("a zip64 file, which numpy.savez makes of no pack")
    length = int.from_bytes(end[at + 12 : at + 16], "little")
    if length > MAX_DIRECTORY:
        raise _BrokenPackError(f"{length:,} bytes name its members, the limit is {MAX_DIRECTORY:,}")


def _read_array(archive: zipfile.ZipFile, member: str) -> np.ndarray:
    if archive.getinfo(member).compress_type not in COMPRESSIONS:
        raise _BrokenPackError(f"{member} is compressed in a way that numpy does not use")
    with archive.open(member) as file:
        start = file.read(12)
    major = start[6] if len(start) == 12 else 0
    if int.from_bytes(start[8 : 10 if major == 1 else 12], "little") > MAX_HEADER:
        raise _BrokenPackError(f"{member} has a header of more than {MAX_HEADER:,} bytes")
    with archive.open(member) as file:
        np.lib.format.read_magic(file)
        header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}[major]
        shape, _, dtype = header(file)
        held = archive.getinfo(member).file_size - file.tell()
    # numpy allocates what the header claims before it finds out that the bytes are not there.
    claimed = int(dtype.itemsize) * int(np.prod([int(n) for n in shape], dtype=object))
    if dtype.hasobject or dtype.itemsize == 0 or min(shape, default=0) < 0 or claimed != held:
        raise _BrokenPackError(f"{member} claims {shape} of {dtype} but holds {held:,} bytes")
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _dataset(name: str, row: Pack, arrays: dict[str, np.ndarray]) -> Dataset:
    labels, class_names = _labels_and_classes(arrays)
    read = _jpeg_reader(name, arrays, len(labels)) if "data" in arrays else _raw_reader(arrays, len(labels))
    group = row.group or next((key for key in GROUPS_SPAN_CLASSES if key in arrays), None)
    groups = _numbers(arrays, group, len(labels)) if group else None
    if group and not GROUPS_SPAN_CLASSES[group]:
        pairs = np.stack([labels, groups], axis=1)
        groups = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
    n_classes = len(class_names)
    families = _numbers(arrays, "class_alphabet", n_classes) if "class_alphabet" in arrays else None
    classes, rows = np.arange(n_classes), np.arange(len(labels))
    if row.split is not None:
        classes = np.flatnonzero(_numbers(arrays, "class_split", n_classes) == row.split)
        rows = np.flatnonzero(np.isin(labels, classes))
    return Dataset(
        name=name,
        labels=np.searchsorted(classes, labels[rows]).astype(np.int32),
        class_names=tuple(class_names[c] for c in classes),
        names=tuple(f"{name}/{i:05d}" for i in rows),
        read=lambda i, size: read(int(rows[i]), size),
        groups=None if groups is None else groups[rows],
        families=None if families is None else families[classes],
        may_flip=row.may_flip,
        provenance=Provenance(licence=row.licence, citation=row.citation),
    )


def _numbers(arrays, key: str, length: int) -> np.ndarray:
    """An integer array of that length as int32."""
    array = arrays.get(key)
    if array is None:
        raise _BrokenPackError(f"{key} is missing")
    if array.dtype.kind not in "iu" or array.shape != (length,):
        raise _BrokenPackError(f"{key} is {array.shape} of {array.dtype}, expected ({length},) of integers")
    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise _BrokenPackError(f"{key} runs from {array.min()} to {array.max()}, beyond 32 bits")
    return array.astype(np.int32)


def _labels_and_classes(arrays) -> tuple[np.ndarray, list[str]]:
    names = arrays.get("class_names")
    if names is None or names.ndim != 1 or names.dtype.kind != "U":
        raise _BrokenPackError("class_names is missing or no list of texts")
    labels = _numbers(arrays, "labels", arrays["labels"].size if "labels" in arrays else 0)
    if not len(labels):
        raise _BrokenPackError("it holds no image")
    if labels.min() < 0 or labels.max() >= len(names):
        raise _BrokenPackError(
            f"labels run from {labels.min()} to {labels.max()}, there are {len(names)} classes"
        )
    letters = np.frombuffer(names.tobytes(), np.dtype("u4").newbyteorder(names.dtype.byteorder))
    if (letters > sys.maxunicode).any():
        raise _BrokenPackError("class_names holds numbers that stand for no letter")
    texts = [str(name) for name in names]
    if wrong := wrong_class_names(texts):
        raise _BrokenPackError(wrong)
    return labels, texts


def _jpeg_reader(name: str, arrays, n: int):
    data, offsets = arrays["data"], arrays.get("offsets")
    if data.dtype != np.uint8 or data.ndim != 1:
        raise _BrokenPackError(f"data is {data.shape} of {data.dtype}, expected one row of uint8")
    if offsets is None or offsets.dtype != np.int64 or offsets.shape != (n + 1,):
        raise _BrokenPackError(
            f"offsets is missing or not ({n + 1},) of int64, one more than there are labels"
        )
    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        raise _BrokenPackError(f"offsets do not ascend from 0 to the {len(data):,} bytes of data")
    if (longest := int(np.diff(offsets).max(initial=0))) > MAX_IMAGE:
        raise _BrokenPackError(f"one of its images has {longest:,} bytes, the limit is {MAX_IMAGE:,}")
    return lambda i, size: load_image(data[offsets[i] : offsets[i + 1]].tobytes(), size, f"{name}/{i:05d}")


def _raw_reader(arrays, n: int):
    images = arrays.get("images")
    if images is None:
        raise _BrokenPackError("neither images nor data is in it")
    good = images.dtype == np.uint8 and images.ndim == 4 and images.shape[-1] in (1, 3)
    if not good or len(images) != n or 0 in images.shape:
        raise _BrokenPackError(
            f"images is {images.shape} of {images.dtype}, expected ({n}, h, w, 1 or 3) of uint8"
        )
    height, width = images.shape[1:3]
    if max(height, width) > MAX_SIDE or height * width > MAX_PIXELS:
        raise _BrokenPackError(
            f"its images are {width} x {height} pixels, the limit is {MAX_PIXELS / 10**6:.0f} million"
            f" and {MAX_SIDE:,} a side"
        )
    return lambda i, size: fit(images[i], size)
