"""Corrected images that are kept as they are, a folder per class, so that the network can be adapted to them.

The folder is what ``tinytrain adapt`` takes. Its size is bounded: if it is full, the oldest image of the
class with most images goes. Losing an image here loses nothing that was learnt.
"""

import contextlib
import hashlib
import os
import shutil
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.file_kinds import is_litter, may_be_bin
from tinytrain.base.files import open_without_waiting, read_bytes, write_bytes

FOLDER = "kept"  # inside of a store
MOST, MOST_BYTES = 200, 2**25
LARGEST = MOST_BYTES // 8  # of one image


@dataclass(frozen=True)
class _File:
    path: Path
    label: str
    nbytes: int
    changed: int


class CorrectedImages:
    """The images below `path`: `most` of them at most, and MOST_BYTES."""

    def __init__(self, path: str | os.PathLike, most: int = MOST):
        self.path, self.most = Path(path), most

    def keep(self, content: str | bytes | None, label: str, suffix: str = ".jpg", image: str = "") -> bool:
        """Keep an image, a path or the bytes of a file, as one of class `label`; whether that was possible.

        An image that is kept for another class is moved, in any case if that is `image`, its digest. It is
        not kept if it has vanished, is another one than `image` or too large, if its class has a name that
        no folder can have, or if there is no room on the disk.
        """
        label = unicodedata.normalize("NFC", label)  # as a delta has it
        with contextlib.suppress(InputError, StorageError, OSError):
            if self.most and content is not None and can_be_folder(label):
                data = content if isinstance(content, bytes) else read_bytes(content, LARGEST)
                if not isinstance(content, bytes):
                    suffix = os.path.splitext(content)[1].lower() or suffix
                if len(data) <= LARGEST and image in ("", name := digest_of(data)):
                    self._write(data, label, name + suffix)
                    return True
        self.move(image, label)
        return False

    def counts(self) -> Counter:
        """How many images of each class are kept."""
        return Counter(file.label for file in self._files())

    def files(self) -> list[tuple[Path, str]]:
        """Paths of the images with their classes, the oldest first."""
        return [(file.path, file.label) for file in sorted(self._files(), key=lambda file: file.changed)]

    def move(self, image: str, label: str | None) -> None:
        """The image with this digest, if it is kept, is of class `label`; it goes if that is None."""
        for file in self._files():
            if file.path.stem == image and file.label != label:
                with contextlib.suppress(OSError):
                    if label is None or not can_be_folder(label):
                        file.path.unlink()
                        continue
                    (self.path / label).mkdir(exist_ok=True)
                    os.replace(file.path, self.path / label / file.path.name)

    def forget(self, label: str) -> None:
        """Remove all images of class `label`."""
        label = unicodedata.normalize("NFC", label)
        if can_be_folder(label):
            shutil.rmtree(self.path / label, ignore_errors=True)

    def rename(self, old: str, new: str) -> None:
        """Images of class `old` are of class `new`; they go if no folder can have that name."""
        old, new = (unicodedata.normalize("NFC", label) for label in (old, new))
        if not can_be_folder(new):
            self.forget(old)
        elif can_be_folder(old) and old != new:
            files = [file.path for file in self._files() if file.label == old]
            with contextlib.suppress(OSError):
                for path in files:
                    (self.path / new).mkdir(exist_ok=True)
                    os.replace(path, self.path / new / path.name)
            self.forget(old)

    def _write(self, data: bytes, label: str, name: str) -> None:
        self.move(Path(name).stem, label)
        folder = self.path / label
        if not (folder / name).exists():
            self._make_room(self._files(), len(data))
            folder.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, data)

    def _make_room(self, files: list[_File], nbytes: int) -> None:
        while files and (len(files) >= self.most or nbytes + sum(f.nbytes for f in files) > MOST_BYTES):
            counts = Counter(file.label for file in files)
            goes = min(files, key=lambda file: (-counts[file.label], file.changed))
            goes.path.unlink(missing_ok=True)
            files.remove(goes)

    def _files(self) -> list[_File]:
        found = []
        with contextlib.suppress(OSError):
            for folder in os.scandir(self.path):
                with contextlib.suppress(OSError):
                    if not folder.is_dir(follow_symlinks=False):
                        continue
                    for entry in os.scandir(folder.path):
                        status = entry.stat(follow_symlinks=False)
                        if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                            item = (Path(entry.path), folder.name, status.st_size, status.st_mtime_ns)
                            found.append(_File(*item))
        return found


def digest_of(image) -> str:
    """16 hexadecimal digits of the content of an image: a path, bytes, a PIL image or an array.

    Raises OSError for a path that cannot be read.
    """
    if isinstance(image, str | os.PathLike):
        with open(image, "rb", opener=open_without_waiting) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    data = image if isinstance(image, bytes | bytearray) else np.asarray(image).tobytes()
    return hashlib.sha256(data).hexdigest()[:16]


def can_be_folder(label: str) -> bool:
    """Whether a folder can have the name of this class, and would be taken for the folder of a class."""
    return (
        not (is_litter(label) or may_be_bin(label))
        and not {"/", "\0"} & set(label)
        and 0 < len(label.encode(errors="surrogateescape")) <= 255
    )
