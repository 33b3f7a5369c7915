"""What compiled kernels depend on: code made under one set of these facts is of no use under another.

Numba's own key leaves out the optimisation settings and every source file but the kernel's own.
"""

import hashlib
import itertools
import os
import platform
import re
from importlib import metadata
from pathlib import Path

KERNELS = Path(__file__).parent.parent
LIBRARIES = ("numba", "llvmlite", "numpy")
IMPORT = re.compile(rb"^ *from tinytrain\.kernels\.([\w.]+) import", re.MULTILINE)
CPU_FIELDS = (  # of /proc/cpuinfo; the rest says where and how fast, not what
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features", "isa",
)  # fmt: skip
WITHOUT_EFFECT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")


def portable() -> bool:
    """Whether kernels shall compute the same bits on every processor; so ``TINYTRAIN_PORTABLE=1`` says."""
    return os.environ.get("TINYTRAIN_PORTABLE", "").lower() not in ("", "0", "no", "off", "false")


def made_for(root: Path = Path("/")) -> dict[str, str]:
    """Everything but the kernels' own sources; `root` is where ``proc`` lies. Imports no numba."""
    settings = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in WITHOUT_EFFECT
    )
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: library_version(name) for name in LIBRARIES},
        "cpu": _cpu(root),
        "settings": " ".join(settings),
        "folder": str(KERNELS),
        "options": _digest(KERNELS / "jit.py") + (" portable" if portable() else ""),
    }


def source_digests(folder: Path = KERNELS) -> dict[str, str]:
    """Module name -> sha256 of its source and of those that it imports, for every module of kernels.

    Numba compiles into a kernel whatever that calls, from other modules as well. Some that are imported are
    not called; a change of theirs costs compiling again.
    """
    sources = {
        _name(path, folder): path.read_bytes() for path in sorted(folder.rglob("*.py")) if _compiled(path)
    }
    own = {name: hashlib.sha256(text).digest() for name, text in sources.items()}
    imported = {
        name: {m.decode() for m in IMPORT.findall(text)} & own.keys() for name, text in sources.items()
    }
    return {
        name: hashlib.sha256(b"".join(own[m] for m in sorted(_reached(name, imported)))).hexdigest()
        for name in sources
    }


def _name(path: Path, folder: Path) -> str:
    return ".".join(path.relative_to(folder).with_suffix("").parts)


def _compiled(path: Path) -> bool:
    """Whether kernels may be compiled from the file: what stores them is no part of them."""
    return path.parent.name != Path(__file__).parent.name


def _reached(name: str, imported: dict[str, set[str]]) -> set[str]:
    """`name` and all modules that it imports, or that these import."""
    reached, waiting = set(), {name}
    while waiting:
        reached |= waiting
        waiting = set().union(*(imported[m] for m in waiting)) - reached
    return reached


def library_version(name: str) -> str:
    """The installed version, ``"none"`` without one."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"


def cpu_fields(root: Path) -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo; none where it cannot be read."""
    try:
        with open(root / "proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            rows = [line.partition(":") for line in itertools.takewhile(str.strip, file)]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in rows}


def _cpu(root: Path) -> str:
    fields = cpu_fields(root)
    known = "\n".join(f"{name}={fields[name]}" for name in CPU_FIELDS if name in fields)
    name = fields.get("model name") or fields.get("CPU part") or "unknown"
    return f"{platform.machine()} {name} {hashlib.sha256(known.encode()).hexdigest()[:16]}"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
