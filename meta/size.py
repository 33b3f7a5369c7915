"""How much code the project has, by package: ``python -m tinytrain.meta.size [FOLDER]``.

A line of code has a token that is no comment, docstring or import. Tests are counted apart.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

from tinytrain.base.console import Parser, guarded

LAYOUT = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"}
CODE = ("tinytrain", "meta", "datasets", "firmware_sim")


def code_lines(source: str) -> int:
    """Lines of Python with something else on them than comments, docstrings and imports."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if tokenize.tok_name[token.type] not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or (is_text and isinstance(node.value.value, str)):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def sizes(root: Path) -> dict[str, Counter]:
    """Files, lines and lines of code of each package, "code" and "tests" in all."""
    found: dict[str, Counter] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if parts[0] not in (*CODE, "tests"):
            continue
        source = path.read_text()
        size = Counter(files=1, lines=source.count("\n"), code=code_lines(source))
        total = "tests" if parts[0] == "tests" else "code"
        package = "/".join(parts[: 2 if len(parts) > 2 else 1])
        for name in {total, package}:
            found.setdefault(name, Counter()).update(size)
    return found


def run(arguments: list[str]) -> None:
    parser = Parser(prog="python -m tinytrain.meta.size", description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", default=".", type=Path, help="a clone (default: this folder)")
    found = sizes(parser.parse(arguments).folder)
    for name, size in sorted(found.items(), key=lambda item: (item[0] not in ("code", "tests"), item[0])):
        print(f"{name:28} {size['files']:5} files {size['lines']:7,} lines {size['code']:7,} of code")


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


if __name__ == "__main__":
    sys.exit(main())
