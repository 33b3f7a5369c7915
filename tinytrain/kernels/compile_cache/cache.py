"""Compiled kernels on disk: one file each, checked before numba may load it.

Numba's own cache neither synchronises nor checks its files: a torn one ends every later run, and a flipped
bit runs as code. Here a file begins with the sha256 of its content, and it is written whole or not at all.
Every set of facts (see `facts`) has a folder of its own. When a process starts, what is not whole there is
removed; it is compiled again when it is needed. What is whole is loaded later only with the same sha256.

The package may bring kernels, compiled beforehand (`tinytrain.kit`): a folder for each set of facts and
processor. They are trusted as its sources are, and used first.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tinytrain.base.errors import StorageError
from tinytrain.base.files import write_bytes
from tinytrain.kernels.compile_cache.facts import KERNELS, made_for, made_with
from tinytrain.kernels.compile_cache.folder import (
    OURS,
    forget_others,
    in_doubt,
    is_being_written,
    make_private,
    read_regular,
    remove,
)

PACKAGED = KERNELS / "compiled"
KEPT_FOLDERS = 4  # of other facts: several installations may share one cache
DIGEST_BYTES = 32
LIMIT = 2**24  # bytes of a file; the largest kernel has some 100 KB
NAME = re.compile(r"(?P<kernel>[\w.]+)-[0-9a-f]{16}\.kernel", re.ASCII)


@dataclass
class Health:
    """What a look at a folder found."""

    good: dict[str, bytes] = field(default_factory=dict)  # sha256 by name of the file
    damaged: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)
    nbytes: int = 0  # of the good files

    @property
    def state(self) -> str:
        return "damaged" if self.damaged else "verified" if self.good else "absent"

    @property
    def kernels(self) -> int:
        """How many have a file; what they share is none of them and has no dot in its name."""
        return len({kernel for name in self.good if "." in (kernel := NAME.fullmatch(name)["kernel"])})


@dataclass(frozen=True)
class Cache:
    """Where compiled kernels are kept in this process; `folder` None: nowhere."""

    folder: Path | None
    kept: bool  # whether the next process finds what this one compiles
    warning: str | None
    verified: dict[str, bytes]  # sha256 by name, of the files that were whole when this process started
    packaged: dict[str, Path] = field(default_factory=dict)  # what the package brings, by name

    def read(self, name: str) -> bytes:
        """What the package brings as `name`, or if that is not whole, what was kept: by the time this process
        started, or since by another one.

        Raises OSError if it is not there, not whole, or another than it was.
        """
        if name in self.packaged:
            with contextlib.suppress(OSError):
                return _trusted(self.packaged[name])[1]
        if self.folder is None:
            raise FileNotFoundError(name)
        digest, content = _read(self.folder / name)
        if digest != self.verified.get(name, digest if self.kept else None):
            raise OSError(f"{self.folder / name} is not as it was")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Keep `content` as `name` from now on, also after a power cut. Raises StorageError."""
        digest = hashlib.sha256(content).digest()
        write_bytes(self.folder / name, digest + content)
        self.verified[name] = digest


def packaged_for(processor: Iterable[str], base: Path = PACKAGED) -> Path:
    """The folder below `base` with what these libraries compiled for `processor`."""
    return base / folder_of(made_with() | {"processor": " ".join(processor)})


def open_cache(base: Path, packaged: Path | None = None) -> Cache:
    """The verified folder below `base` for this installation and machine, beside what the package brings in
    the folder `packaged`; raises nothing.

    If it cannot be written, what is whole in it is used and nothing is kept.
    """
    facts, brought = made_for(), _brought(packaged)
    base = Path(os.path.realpath(base))  # once: nobody can lead a link elsewhere afterwards
    folder = base / folder_of(facts)
    try:
        make_private(base, OURS)
        make_private(folder)
        health = clean(folder)
    except (OSError, StorageError) as error:
        good = _whole(folder)
        if good or brought:
            return Cache(folder if good else None, False, None, good, brought)
        fact = error.message if isinstance(error, StorageError) else error
        warning = (
            f"jit-cache-unusable: compiled kernels cannot be kept ({fact});"
            " set TINYTRAIN_CACHE to a folder such as /var/cache/tinytrain, above which nobody else may write"
        )
        return Cache(None, False, warning, good)
    warning = (
        f"jit-cache-damaged: {len(health.damaged)} files in {folder} were not as they were written;"
        " these kernels are compiled again; if this repeats, check the storage device"
    )
    return Cache(folder, True, warning if health.damaged else None, health.good, brought)


def _brought(packaged: Path | None) -> dict[str, Path]:
    try:
        return {path.name: path for path in packaged.iterdir()} if packaged else {}
    except OSError:
        return {}


def _whole(folder: Path) -> dict[str, bytes]:
    """What may be used of a folder that cannot be written."""
    try:
        return {} if in_doubt(folder) else inspect(folder).good
    except OSError:
        return {}


def folder_of(facts: dict[str, str]) -> str:
    """Name of the folder for `facts`."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def inspect(folder: Path, packaged: bool = False) -> Health:
    """Read and check everything in `folder`, which may be `packaged`, changing nothing.

    Raises OSError if it cannot be listed.
    """
    read = _trusted if packaged else _read
    health = Health()
    for path in sorted(folder.iterdir()):
        if not NAME.fullmatch(path.name):
            if not is_being_written(path):
                health.foreign.append(path)
            continue
        try:
            health.good[path.name], content = read(path)
            health.nbytes += len(content)
        except OSError:
            health.damaged.append(path)
    return health


def clean(folder: Path) -> Health:
    """Remove what must not be used, and say what was found. Raises OSError if it cannot be removed."""
    health = inspect(folder)
    for path in [*health.damaged, *health.foreign]:
        remove(path)
    if not health.good:
        forget_others(folder, KEPT_FOLDERS)
    return health


def _read(path: Path) -> tuple[bytes, bytes]:
    """sha256 and content of a file that is whole. Raises OSError."""
    return _checked(path, read_regular(path, LIMIT))


def _trusted(path: Path) -> tuple[bytes, bytes]:
    """As `_read`, whoever owns the file."""
    return _checked(path, path.read_bytes())


def _checked(path: Path, data: bytes) -> tuple[bytes, bytes]:
    digest, content = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise OSError(f"{path} is not as it was written")
    return digest, content
