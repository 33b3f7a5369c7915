"""What compiled kernels depend on: code made under one set of these facts is of no use under another.

Numba's own key leaves out the optimisation settings and every source file but the kernel's own. A change of
one source of kernels is a change for all of them: numba compiles into a kernel whatever that calls.
"""

import functools
import hashlib
import itertools
import os
import platform
import re
import sys
from pathlib import Path

KERNELS = Path(__file__).parent.parent
LIBRARIES = ("numba", "llvmlite", "numpy")
CPU_FIELDS = (  # of /proc/cpuinfo; the rest says where and how fast, not what
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features", "isa",
)  # fmt: skip
# Of what is installed, in a folder that modules are imported from.
ENTRY = re.compile(rf"(?P<name>{'|'.join(LIBRARIES)})-(?P<version>[^-]+)(-py[\d.]+)?\.(dist|egg)-info")
WITHOUT_EFFECT = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")


def made_with() -> dict[str, str]:
    """What compiled code depends on beside the processor. Imports no numba.

    Of Python and numpy the minor version: within it neither bytecode nor the layout of objects changes.
    """
    python, numpy = platform.python_version_tuple(), library_version("numpy").split(".")
    return {
        # Builds of one version lay objects out in several ways; the letters of `abiflags` tell them apart.
        "python": f"{platform.python_implementation()} {'.'.join(python[:2])}{sys.abiflags}",
        **{name: library_version(name) for name in LIBRARIES} | {"numpy": ".".join(numpy[:2])},
        "sources": sources_digest(),
    }


def made_for(root: Path = Path("/")) -> dict[str, str]:
    """Everything that code compiled here depends on; `root` is where ``proc`` lies."""
    return made_with() | {"cpu": _cpu(root), "settings": settings(), "folder": str(KERNELS)}


def settings(ignored: tuple[str, ...] = ()) -> str:
    """What the environment, but for the variables `ignored`, and a file say to numba; "" if nothing."""
    found = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in WITHOUT_EFFECT + ignored
    )
    return " ".join(found) + _settings_file()


def _settings_file() -> str:
    """What tells numba's file of settings, which it reads in the working folder, from others; mostly ""."""
    try:
        return f" file {hashlib.sha256(Path('.numba_config.yaml').read_bytes()).hexdigest()[:16]}"
    except OSError:
        return ""


@functools.cache
def sources_digest(folder: Path = KERNELS) -> str:
    """sha256 of all sources that kernels may be compiled from: what stores them is no part of them."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if path.parent.name != Path(__file__).parent.name:
            text = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def library_version(name: str) -> str:
    """The installed version, ``"none"`` without one."""
    return _installed().get(name, "none")


@functools.cache
def _installed() -> dict[str, str]:
    """Versions of `LIBRARIES` by the names of their entries, as `importlib.metadata` finds them.

    To import that takes longer than to load all kernels.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            entries = [ENTRY.fullmatch(entry) for entry in sorted(os.listdir(folder or "."))]
        except OSError:
            continue
        for entry in filter(None, entries):
            found.setdefault(entry["name"], entry["version"])
    return found


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
