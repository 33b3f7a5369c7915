"""The table of ops has a row for every kind of layer, and is the only place that tells kinds apart."""

import ast
from pathlib import Path

from toynets import toy

from tinytrain.network.lite_residual import possible_modules
from tinytrain.network.validation import KINDS
from tinytrain.program import autodiff
from tinytrain.program.autodiff.ops import OPS

# The tables, and which kinds are computed together: in row tiles, in rows, and for some channels at a time.
NAMED = {"ops.py", "int8_ops.py", "int8_conv.py", "fused_block.py", "streamed.py", "inner_channels.py"}


def test_every_kind_of_layer_has_a_row():
    added = {layer.kind for module in possible_modules(toy("blocks").layers) for layer in module.layers}
    assert added == {"grouped", "pointwise"}
    assert OPS.keys() == {*KINDS, *added}


def test_no_other_file_of_autodiff_names_a_kind():
    files = {path.name: path.read_text() for path in Path(autodiff.__file__).parent.glob("*.py")}
    naming = set()
    for name, text in files.items():
        strings = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
        naming |= {name} if strings & OPS.keys() else set()
    assert naming == NAMED
