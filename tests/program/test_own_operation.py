"""The operation that the documentation adds as an example works as it stands there, and needs no more."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import oraclelayers
import pytest
from toygraphs import Nodes
from toynets import random_updates
from toysegments import assert_forward_equals_oracle, assert_gradients_equal_oracle

from tinytrain import kernels
from tinytrain.base.errors import InputError
from tinytrain.network import node
from tinytrain.network.file import decode, decode_network, encode_network
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.quantisation import int8_obstacle
from tinytrain.program import signatures
from tinytrain.program.autodiff import activations
from tinytrain.program.backends.registry import FLOAT32

PAGE = Path(__file__).parents[2] / "docs" / "own-network.md"
TABLES = {
    "tinytrain/network/node.py": (node, "ACTIVATIONS"),
    "tinytrain/program/autodiff/activations.py": (activations, "ROWS"),
    "tinytrain/program/signatures.py": (signatures, "KERNELS"),
}


def written() -> dict[str, str]:
    """Code of the example, by the file where it goes."""
    (code,) = re.findall(r"```python\n(# tinytrain/network.*?)```", PAGE.read_text(), re.DOTALL)
    parts = re.split(r"^# (tinytrain/\S+?),.*\n", code, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def swish(x):
    s = 1 / (1 + np.exp(-x))
    return x * s, s + x * s * (1 - s)


@pytest.fixture
def added(monkeypatch):
    """The rows of the page are in their tables, its kernels among those of numpy."""
    code = written()
    for file, (module, name) in TABLES.items():
        for key, row in eval(f"{{{code.pop(file)}}}", vars(module)).items():
            monkeypatch.setitem(getattr(module, name), key, row)
            if name == "KERNELS":
                monkeypatch.setitem(FLOAT32.signatures, key, row)
    made = {"kernel": lambda function: function, "np": np, "ONE": np.float32(1)}
    exec(code.pop("tinytrain/kernels/activation.py"), made)
    assert not code
    table = vars(kernels.load("numpy")) | {name: made[name] for name in ("swish", "swish_grad")}
    monkeypatch.setattr(kernels, "load", lambda *_: SimpleNamespace(**table))
    monkeypatch.setitem(oraclelayers.ACTIVATIONS, "swish", swish)


def network():
    made = Nodes(InputSpec((12, 12, 3)))
    made.add("conv", 6, 3, 2, activation="swish")
    made.block += 1
    made.add("pointwise", 8, activation="swish")
    made.add("depthwise", 8, 3, activation="swish")
    made.add("pointwise", 7)
    return made.network("swish")


def test_passes_and_gradients_of_any_slices_equal_the_oracle(added):
    assert_forward_equals_oracle(network())
    for key in range(3):
        assert_gradients_equal_oracle(network(), random_updates(network(), key), 1 + key % 2)


def test_such_a_network_is_stored_under_a_schema_of_its_own_and_refused_in_int8_by_name(added):
    tensors, metadata = decode(encode_network(network()))
    assert metadata["schema"] == "5"
    assert decode_network(tensors, metadata).digest == network().digest
    assert "0.conv has the activation swish" in int8_obstacle(network())


def test_without_its_rows_it_is_refused():
    made = Nodes(InputSpec((12, 12, 3)))
    made.add("conv", 6, 3, 2, activation="swish")
    with pytest.raises(InputError, match="activation must be null or one of relu6, relu"):
        made.network("unknown")
