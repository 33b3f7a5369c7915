"""Files, signatures and dataclasses stay small enough to read; `adapt` fits a screen."""

import ast
import dataclasses
import importlib
import inspect
from pathlib import Path

from sourcetree import MODULES, ROOT, imports

from tinytrain.meta.size import code_lines
from tinytrain.pipeline.adapt import adapt

FILE_LINES, PARAMETERS, FIELDS = 300, 7, 10
# Each field is a key of a row in a file that exists outside of the project: networks, recipes of training,
# and the heads of deltas.
ROWS_OF_FILES = {
    "LogMel": 14,
    "Node": 14,
    "OptimizerSettings": 12,
    "MetaRecipe": 14,
    "PretrainRecipe": 19,
    "OselmAeHead": 11,
    "RceHead": 12,
    "ScatterHead": 12,
}
# The parameters of `tinytrain.adapt` are options of the command line, most of which nobody gives.
OPTIONS = {
    "tinytrain/api/adapt.py": 10,
    "tinytrain/pipeline/adapt.py": 9,
    **dict.fromkeys(("tinytrain/pipeline/second_look.py", "tinytrain/pipeline/committee.py"), 8),
}
ADAPT_LINES, ADAPT_IMPORTS = 45, 12


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def too_many(counts: dict[str, int], limit: int) -> str:
    """One line for each name whose number is above the limit."""
    return "\n".join(
        f"{name}: {count}, the limit is {limit}" for name, count in counts.items() if count > limit
    )


def parameters(function: ast.FunctionDef) -> int:
    """Parameters without self and cls; *args and **kwargs count as one each."""
    a = function.args
    names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def functions(path: Path) -> dict[str, int]:
    nodes = ast.walk(ast.parse(path.read_text()))
    found = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {f"{name_of(path)}:{node.lineno} {node.name}": parameters(node) for node in found}


def is_dataclass(node: ast.ClassDef) -> bool:
    names = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(ast.unparse(name).endswith("dataclass") for name in names)


def dataclass_names(path: Path) -> list[str]:
    source = path.read_text()
    nodes = ast.parse(source).body if "dataclass" in source else ()
    return [node.name for node in nodes if isinstance(node, ast.ClassDef) and is_dataclass(node)]


def test_files_are_short():
    """In lines of code: a limit on docstrings would make files and no thought."""
    sources = {name_of(path): path.read_text() for path in MODULES.values()}
    counts = {n: code_lines(source) for n, source in sources.items() if source.count("\n") > FILE_LINES}
    assert not too_many(counts, FILE_LINES), too_many(counts, FILE_LINES)


def test_functions_take_few_parameters():
    """Kernels are left out: native code takes every array and size as a parameter of its own."""
    paths = [path for module, path in MODULES.items() if not module.startswith("tinytrain.kernels")]
    counts = {name: count for path in paths for name, count in functions(path).items()}
    counts = {name: n for name, n in counts.items() if n > OPTIONS.get(name.partition(":")[0], PARAMETERS)}
    assert not too_many(counts, PARAMETERS), too_many(counts, PARAMETERS)


def test_dataclasses_have_few_fields():
    """Inherited fields count, too."""
    names = {module: dataclass_names(path) for module, path in MODULES.items()}
    classes = [getattr(importlib.import_module(module), name) for module in names for name in names[module]]
    longer = {c.__name__: count for c in classes if (count := len(dataclasses.fields(c))) > FIELDS}
    assert len(classes) > 100 and longer.items() <= ROWS_OF_FILES.items(), too_many(longer, FIELDS)


def test_adapt_fits_a_screen():
    path = Path(inspect.getfile(adapt))
    imported = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.Import | ast.ImportFrom)]
    counts = {"lines of adapt": len(inspect.getsource(adapt).splitlines())}
    assert imports(path) and not too_many(counts, ADAPT_LINES), too_many(counts, ADAPT_LINES)
    counts = {f"modules that {name_of(path)} imports": len(imported)}
    assert not too_many(counts, ADAPT_IMPORTS), too_many(counts, ADAPT_IMPORTS)
