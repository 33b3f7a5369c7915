"""Which code made a number: a hash of every source file that can change one."""

import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path

# Commands, stores, importers of networks and the pages of reports change no number.
SOURCES = {
    "tinytrain": ("*.py", "kernels/*.py", "policies/*.py", "report/content.py", "report/macs.py"),
    "tinytrain.datasets": ("*.py",),
    "tinytrain.meta.bench": ("entry.py", "sampler.py", "episode.py", "accounting.py"),
}
WITHOUT = ("cli.py", "__main__.py")


@cache
def code_hash() -> str:
    """16 hexadecimal digits over names and contents of the sources of this installation."""
    digest = hashlib.sha256()
    for module, patterns in SOURCES.items():
        folder = Path(import_module(module).__file__).parent
        for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
            if path.name not in WITHOUT:
                digest.update(f"{module} {path.relative_to(folder)} {path.stat().st_size}\n".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
