"""The list of compiled kernels that may be used: sha256, size and source of each file.

Names in it are only compared with what is there: no path is ever made of them.
"""

import json
import os
import re
import stat
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.base.files import read_bytes, write_bytes
from tinytrain.kernels.compile_cache.folder import remove

FORMAT, MANIFEST, LIMIT = 1, "manifest.json", 2**20
DATA = ".nbc"
# As numba names them: module.kernel-line.pyVERSION, then .nbi for an index, .1.nbc for data.
NAME = re.compile(r"(?P<kernel>(?P<module>\w+)\.[\w.]+-\d+\.py\d+[a-z]*)\.(?:nbi|\d+\.nbc)", re.ASCII)

Entry = tuple[str, int, str]  # sha256, bytes, sha256 of the module that was compiled


def kernel_of(name: str) -> str | None:
    """What index and data of one kernel have in common; None for a name that numba does not give."""
    folder, _, file = name.rpartition("/")
    match = NAME.fullmatch(file)
    return f"{folder}/{match['kernel']}" if match else None


def module_of(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


def read_manifest(folder: Path, facts: dict[str, str]) -> dict[str, Entry] | None:
    """Name -> what is listed; None without a manifest. Raises InputError for one that cannot be used."""
    path = folder / MANIFEST
    if not os.path.lexists(path):
        return None
    try:
        content = json.loads(read_bytes(path, LIMIT))
        if content["format"] != FORMAT or content["made_for"] != facts:
            raise ValueError("it was made for something else")
        return {name: _entry(value) for name, value in content["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("jit-manifest", f"{path} cannot be used ({error}); it is made again") from error


def write_manifest(folder: Path, facts: dict[str, str], files: dict[str, Entry]) -> None:
    """List exactly `files`, atomically. Raises StorageError."""
    path = folder / MANIFEST
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        remove(path)
    content = {"format": FORMAT, "made_for": facts, "files": dict(sorted(files.items()))}
    write_bytes(path, json.dumps(content, indent=1).encode())


def _entry(value) -> Entry:
    digest, size, source = value
    if not (isinstance(digest, str) and isinstance(source, str) and type(size) is int and size >= 0):
        raise ValueError("an entry is no (digest, size, digest)")
    return digest, size, source
