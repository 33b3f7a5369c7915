"""Which code made a number: a hash of every source file that can change one."""

import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path

# Commands, stores, ONNX, the cache of compiled kernels, messages and the pages of reports change no number.
SOURCES = {
    "tinytrain": (
        "*.py",
        *(
            f"{package}/**/*.py"
            for package in (
                "backbones", "base", "delta", "drift", "episode", "guard", "heads", "kernels", "network",
                "pipeline", "plan", "planner", "policies", "program", "runtime",
            )
        ),
        "report/report.py",
        "report/committee.py",
        "report/content.py",
    ),
    "tinytrain.datasets": ("**/*.py",),
    "tinytrain.meta.bench": ("sampler.py", "episode.py", "accounting.py"),
}  # fmt: skip
WITHOUT_FOLDERS = ("compile_cache", "onnx")
WITHOUT = (
    "__main__.py", "answer.py", "console.py", "extras.py", "help_format.py", "interrupts.py", "page.py",
    "svg.py", "yaml_file.py",
)  # fmt: skip


def sources() -> list[tuple[str, Path]]:
    """(package, file) of all of them in this installation, always in the same order."""
    found = []
    for module, patterns in SOURCES.items():
        folder = Path(import_module(module).__file__).parent
        files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
        found += [(module, path) for path in files if _counts(path)]
    return found


def _counts(path: Path) -> bool:
    return path.name not in WITHOUT and path.parent.name not in WITHOUT_FOLDERS


@cache
def code_hash() -> str:
    """16 hexadecimal digits over names and contents of the sources."""
    digest = hashlib.sha256()
    for module, path in sources():
        name = path.relative_to(Path(import_module(module).__file__).parent)
        digest.update(f"{module} {name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
