"""`adapt` itself: what it may be called with, and that one screen shows all of it."""

import ast
import inspect

import tinytrain
from tinytrain.pipeline import adapt as module


def test_adapt_shows_its_parameters_to_whoever_asks():
    """Before its first use and after it, to `help` and to completion."""
    names = ["network", "episode", "budget", "policy", "seed", "device", "force", "head", "train", "start"]
    assert [*inspect.signature(tinytrain.adapt).parameters] == names
    assert inspect.isfunction(tinytrain.adapt) and "Raises BudgetError" in inspect.getdoc(tinytrain.adapt)


def test_the_chain_fits_one_screen():
    tree = ast.parse(inspect.getsource(module))
    assert len(inspect.getsource(module.adapt).splitlines()) <= 45
    assert sum(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body) <= 12
