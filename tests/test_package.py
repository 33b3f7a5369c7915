"""What the package offers by name, whatever was imported of it before."""

import doctest
import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cases import each
from sourcetree import MODULES

import tinytrain

ROOT = Path(__file__).parent.parent

BEFORE = {
    "nothing": "",
    "its use": "tinytrain.{name}",
    "its module": "import tinytrain.pipeline.adapt",
    "both modules": "import tinytrain.pipeline.adapt, tinytrain.pipeline.add_classes",
}
CALL = """
import inspect, tinytrain
{before}
assert list(inspect.signature(tinytrain.{name}).parameters)[:2] == {first}
try:
    tinytrain.{name}(network=None)
except TypeError as error:
    print(error)
"""
FUNCTIONS = {"adapt": ["network", "episode"], "add_classes": ["network", "delta"]}


@each("name", FUNCTIONS)
@each("before", BEFORE)
def test_a_function_can_be_called_whatever_was_imported_before(name, before):
    code = CALL.format(name=name, before=BEFORE[before].format(name=name), first=FUNCTIONS[name])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith(f"{name}() missing "), done.stderr


@each("name", [name for name in tinytrain.__all__ if name != "__version__"])
def test_every_public_name_is_there_after_its_first_use_too(name):
    assert callable(getattr(tinytrain, name)) and callable(getattr(tinytrain, name))
    assert inspect.signature(getattr(tinytrain, name)).parameters, "the real ones, not *args"


@pytest.mark.parametrize("old, new", [("Pictures", "Images"), ("extend", "add_classes")])
def test_a_former_name_works_and_says_the_new_one(old, new):
    with pytest.warns(DeprecationWarning, match=f"is called tinytrain.{new} now"):
        assert getattr(tinytrain, old) is getattr(tinytrain, new)


def test_a_wheel_has_every_package():
    """An editable install finds a folder that pyproject.toml forgot; a wheel lacks it."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(name for name, path in MODULES.items() if path.name == "__init__.py")


def test_a_script_in_a_clone_finds_the_packages_that_lie_beside_the_first_one():
    """Python puts the folder of a script before what is installed, and an editable install knows its way."""
    code = (
        "import sys\n"
        "sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "import tinytrain.datasets, tinytrain.meta, tinytrain.firmware_sim\n"
        "print(tinytrain.datasets.__file__)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(ROOT / "datasets" / "__init__.py"), done.stderr


def test_examples_in_docstrings_are_true():
    """Written as in Python's prompt; names of what lies beside are those of the module."""
    with_examples = [module for module, path in MODULES.items() if "\n    >>> " in path.read_text()]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in with_examples}
    wrong = {name for name, (failed, tried) in results.items() if failed or not tried}
    assert len(results) > 5 and not wrong
