"""Which compiled kernels on disk numba may use.

Numba pickles machine code into files that it neither synchronises nor checks: a torn one ends every
later run, and a flipped bit runs as code. So every set of facts (see `facts`) has a folder of
its own, with a manifest of everything in it. Before numba looks, whatever is not listed, or not as
listed, is removed; it is compiled again when it is needed. What is loaded later is `Cache.read`: the bytes
that are as they were listed, whatever lies in the folder by then.
"""

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tinytrain.base.errors import InputError, StorageError
from tinytrain.kernels.compile_cache.facts import made_for, source_digests
from tinytrain.kernels.compile_cache.folder import (
    OURS,
    contents,
    forget_others,
    in_doubt,
    is_being_written,
    locked,
    make_private,
    read_regular,
    remove,
    synced_digest,
)
from tinytrain.kernels.compile_cache.manifest import (
    DATA,
    MANIFEST,
    Entry,
    kernel_of,
    module_of,
    read_manifest,
    write_manifest,
)

KEPT_FOLDERS = 4  # of other facts: several installations may share one cache


@dataclass
class Health:
    """What a look at a folder found."""

    manifest: str = "absent"  # or "ok" or "damaged"
    listed: dict[str, Entry] = field(default_factory=dict)
    good: dict[str, Entry] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)  # listed, but changed or missing
    surplus: list[Path] = field(default_factory=list)  # to be removed, damaged files included

    @property
    def state(self) -> str:
        if self.damaged or self.manifest == "damaged":
            return "damaged"
        return "verified" if self.good else "absent"

    @property
    def kernels(self) -> int:
        return len({kernel_of(name) for name in self.good})

    @property
    def nbytes(self) -> int:
        return sum(size for _, size, _ in self.good.values())


@dataclass(frozen=True)
class Cache:
    """Where numba may keep compiled kernels in this process; `folder` None: nowhere."""

    folder: Path | None
    kept: bool  # whether the next process finds them
    warning: str | None
    facts: dict[str, str]
    sources: dict[str, str]
    verified: dict[str, Entry]
    own: set[str] = field(default_factory=set)  # prefixes of what this process has written
    listings: dict[tuple, dict[str, Entry]] = field(default_factory=dict)  # by status of the manifest

    def read(self, path: str) -> bytes:
        """Content of a file in the folder, as it was listed when this process started; what was not there
        then, as another process has listed it since. Raises OSError."""
        name = os.path.relpath(path, self.folder)
        entry = self.verified.get(name) or self._listed().get(name)
        if not entry or entry[2] != self.sources.get(module_of(name)):
            raise FileNotFoundError(f"{path} is not listed")
        return _read_listed(self.folder / name, entry)

    def _listed(self) -> dict[str, Entry]:
        """What the manifest lists by now. Numba asks for hundreds of files: one manifest is parsed once."""
        try:
            status = (self.folder / MANIFEST).lstat()
            version = status.st_ino, status.st_mtime_ns, status.st_size
            if version not in self.listings:
                self.listings.clear()
                self.listings[version] = read_manifest(self.folder, self.facts) or {}
            return self.listings[version]
        except (OSError, InputError):
            return {}

    def save(self, prefix: str, write) -> None:
        """Call `write`, which writes the files that start with `prefix`, unless another process has written
        them since this one started: theirs may be listed by now, and no two compilations give the same bytes.

        Raises what `write` raises, and OSError.
        """
        with locked(self.folder):
            found = contents(self.folder, but=MANIFEST).keys() - self.verified.keys()
            theirs = any(_starts(name, prefix) and name.endswith(DATA) for name in found)
            if theirs and prefix not in self.own:
                return
            write()
            self.own.add(prefix)
            if self.kept:
                _list_again(self.folder, self.facts, self.sources, prefix)

    def seal(self) -> None:
        """List what was compiled since. Raises OSError or StorageError; the old manifest then stands."""
        if self.kept:
            seal(self.folder, self.facts, self.sources, self.verified)


def open_cache(base: Path) -> Cache:
    """The verified folder below `base` for this installation and machine; raises nothing.

    Where it cannot be written, what is good in it is used from a temporary copy.
    """
    facts, sources = made_for(), source_digests()
    base = Path(os.path.realpath(base))  # once: nobody can lead a link elsewhere afterwards
    folder = base / folder_of(facts)
    try:
        make_private(base, OURS)
        make_private(folder)
        health = clean(folder, facts, sources)
    except (OSError, StorageError) as error:
        copy, good = _copy_verified(folder, facts, sources)
        return Cache(copy, False, None if copy else _unusable(error), facts, sources, good)
    warning = _damage(folder, health) if health.state == "damaged" else None
    return Cache(folder, True, warning, facts, sources, health.good)


def _unusable(error: OSError | StorageError) -> str:
    fact = str(error).partition(": ")[2] if isinstance(error, StorageError) else str(error)
    return (
        f"jit-cache-unusable: compiled kernels cannot be kept ({fact});"
        " set TINYTRAIN_CACHE to a folder such as /var/cache/tinytrain, above which nobody else may write"
    )


def _damage(folder: Path, health: Health) -> str:
    count = len(health.damaged) or "all"
    return (
        f"jit-cache-damaged: {count} files in {folder} were not as they were written;"
        " these kernels are compiled again; if this repeats, check the storage device"
    )


def folder_of(facts: dict[str, str]) -> str:
    """Name of the folder for `facts`."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def inspect(folder: Path, facts: dict[str, str], sources: dict[str, str]) -> Health:
    """Read and check everything in `folder`, changing nothing. Raises OSError where it cannot be read."""
    health, found = Health(), contents(folder, but=MANIFEST)
    try:
        listed = read_manifest(folder, facts)
        health.manifest, health.listed = ("absent", {}) if listed is None else ("ok", listed)
    except InputError:
        health.manifest = "damaged"
    for name, entry in health.listed.items():
        if entry[2] != sources.get(module_of(name)):
            continue  # its source has changed since
        if name in found and kernel_of(name) and _is_as_listed(found[name], entry):
            health.good[name] = entry
        else:
            health.damaged.add(name)
    # Index and data of a kernel stay or go together: to replace one, numba would write both.
    broken = {kernel_of(name) for name in {*health.damaged, *found} - health.good.keys()}
    health.good = {name: entry for name, entry in health.good.items() if kernel_of(name) not in broken}
    health.surplus = [p for name, p in found.items() if name not in health.good and not is_being_written(p)]
    return health


def _is_as_listed(path: Path, entry: Entry) -> bool:
    try:
        _read_listed(path, entry)
    except OSError:
        return False
    return True


def _read_listed(path: Path, entry: Entry) -> bytes:
    data = read_regular(path, entry[1])
    if hashlib.sha256(data).hexdigest() != entry[0]:
        raise OSError(f"{path} is not as it was listed")
    return data


def clean(folder: Path, facts: dict[str, str], sources: dict[str, str]) -> Health:
    """Remove what must not be used, and say what was found.

    Raises OSError or StorageError where it cannot be removed.
    """
    with locked(folder):
        health = inspect(folder, facts, sources)
        if health.manifest == "damaged" or health.good.keys() != health.listed.keys():
            # First, so that nothing that is compiled again is ever listed with its old digest.
            write_manifest(folder, facts, health.good)
        for path in health.surplus:
            remove(path)
    return health


def seal(folder: Path, facts: dict[str, str], sources: dict[str, str], verified: dict[str, Entry]) -> None:
    """List the files that were written since. `verified` is what was good, should the manifest be lost.

    Raises OSError or StorageError where it cannot be written; the old manifest then stands.
    """
    with locked(folder):
        try:
            before = read_manifest(folder, facts) or {}
            listed = dict(before)
        except InputError:
            before, listed = None, dict(verified)
        for name, path in contents(folder, but=MANIFEST).items():
            if name not in listed and kernel_of(name) and module_of(name) in sources:
                listed[name] = (*synced_digest(path), sources[module_of(name)])
        if listed != before:
            write_manifest(folder, facts, listed)
    if not before:
        forget_others(folder, KEPT_FOLDERS)


def _starts(name: str, prefix: str) -> bool:
    return name.rpartition("/")[2].startswith(prefix)


def _list_again(folder: Path, facts: dict[str, str], sources: dict[str, str], prefix: str) -> None:
    """List anew what is listed already and starts with `prefix`: a function that is inlined into several
    kernels has a signature for each, and its index is written again for every one.

    Raises OSError or StorageError.
    """
    try:
        listed = read_manifest(folder, facts) or {}
    except InputError:
        return  # whoever seals next writes a new one
    again = [name for name in listed if _starts(name, prefix) and (folder / name).exists()]
    if again:
        entries = {name: (*synced_digest(folder / name), sources[module_of(name)]) for name in again}
        write_manifest(folder, facts, listed | entries)


def _copy_verified(
    folder: Path, facts: dict[str, str], sources: dict[str, str]
) -> tuple[Path | None, dict[str, Entry]]:
    """A folder for this process with what is good in `folder`, and what that is; None if nothing is."""
    try:
        good = inspect(folder, facts, sources).good
        if not good or in_doubt(folder):
            return None, {}
        copy = Path(tempfile.mkdtemp(prefix="tinytrain-kernels-"))
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        for name, entry in good.items():
            (copy / name).parent.mkdir(mode=0o700, exist_ok=True)
            (copy / name).write_bytes(_read_listed(folder / name, entry))
        return copy, good
    except OSError:
        return None, {}
