"""The project's modules by dotted name, and what they import."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = ("tinytrain", "meta", "datasets", "firmware_sim")


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "tinytrain" else ("tinytrain", *parts)).removesuffix(".__init__")


MODULES = {module_of(path): path for tree in TREES for path in sorted((ROOT / tree).rglob("*.py"))}


def imports(path: Path) -> set[str]:
    """Modules of the project that a file imports anywhere, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return {name for name in found if name.split(".")[0] == "tinytrain"}
