"""The table of ops has a row for every kind of layer, and is the only place that tells kinds apart."""

import ast
from pathlib import Path

from tinytrain.network.node import OPS as VALUES
from tinytrain.program import autodiff
from tinytrain.program.autodiff.int8_emitter import Int8Emitter
from tinytrain.program.autodiff.ops import IMAGE, OPS

NAMED = {"ops.py", "int8_ops.py", "int8_conv.py"}  # the tables


def test_every_operation_has_a_row_in_both_tables():
    assert OPS.keys() == {*VALUES, IMAGE}
    assert Int8Emitter.ops.keys() == {name for name, row in VALUES.items() if row.in_int8} | {IMAGE}


def test_no_other_file_of_autodiff_names_an_operation():
    files = {path.name: path.read_text() for path in Path(autodiff.__file__).parent.glob("*.py")}
    naming = set()
    for name, text in files.items():
        strings = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
        naming |= {name} if strings & OPS.keys() else set()
    assert naming == NAMED
