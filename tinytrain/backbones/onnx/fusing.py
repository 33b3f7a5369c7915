"""Norms over channels and GELU, which exporters write as arithmetic, as the one operation that they are.

A pattern is an operation and what it reads, sums and products in any order, means of channels alone; a float,
for a constant of this value; or a string, for one result wherever it stands, in capitals for a constant.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinytrain.backbones.onnx.reading import Node

CENTRED = ("Sub", "x", ("ReduceMean", "x"))
DEVIATION = ("Sqrt", ("Add", ("ReduceMean", ("Pow", CENTRED, 2.0)), "EPSILON"))
NORM = ("Add", ("Mul", ("Div", CENTRED, DEVIATION), "SCALE"), "BIAS")
BELOW = [  # twice the share of a normal distribution below x
    ("Add", ("Erf", inner), 1.0) for inner in (("Div", "x", math.sqrt(2)), ("Mul", "x", math.sqrt(0.5)))
]
GELUS = [
    ("Mul", ("Mul", *first), last)
    for below in BELOW
    for *first, last in (("x", below, 0.5), ("x", 0.5, below), (below, 0.5, "x"))
]


def fused(nodes: tuple[Node, ...], constants: dict[str, np.ndarray]) -> tuple[Node, ...]:
    """`nodes`, in which the last of each such chain stands for all of it; what nobody reads is gone."""
    by = {name: node for node in nodes for name in node.outputs}
    made = [_whole(node, by, constants) for node in nodes]
    replaced = any(new is not old for new, old in zip(made, nodes, strict=True))
    return _read(made, nodes[-1]) if replaced else nodes


def _read(nodes: list[Node], last: Node) -> tuple[Node, ...]:
    """Those of `nodes` whose results are read for the one called `last`."""
    needed, kept = {*last.outputs}, []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return tuple(reversed(kept))


def _whole(node: Node, by: Mapping[str, Node], constants: Mapping[str, np.ndarray]) -> Node:
    """The operation that ends with `node`, or itself."""
    found = _names(node.outputs[0], NORM, {}, by, constants)
    if found and not math.isnan(epsilon := _number(found["EPSILON"], constants)):
        numbers = {"axis": -1, "epsilon": epsilon}
        inputs = (found["x"], found["SCALE"], found["BIAS"])
        return replace(node, op="LayerNormalization", inputs=inputs, attributes=numbers)
    for pattern in GELUS:
        if found := _names(node.outputs[0], pattern, {}, by, constants):
            return replace(node, op="Gelu", inputs=(found["x"],), attributes={})
    return node


def _names(name: str, pattern, known: dict[str, str], by, constants) -> dict[str, str] | None:
    """The `known` names for strings and those of `pattern`, if result `name` is what it says; else None."""
    if isinstance(pattern, str):
        fits = known.get(pattern, name) == name and (pattern.islower() or name in constants)
        return known | {pattern: name} if fits else None
    if isinstance(pattern, float):
        return known if abs(_number(name, constants) - pattern) < 1e-4 else None
    node, (op, *parts) = by.get(name), pattern
    if node is None or node.op != op or (op == "ReduceMean" and not _is_of_channels(node, constants)):
        return None
    inputs = node.inputs[:1] if op == "ReduceMean" else node.inputs
    if len(inputs) != len(parts):
        return None
    for order in (parts, parts[::-1]) if op in ("Add", "Mul") else (parts,):
        found = known
        for read, part in zip(inputs, order, strict=True):
            found = None if found is None else _names(read, part, found, by, constants)
        if found is not None:
            return found
    return None


def _number(name: str, constants: Mapping[str, np.ndarray]) -> float:
    """The only number of a constant; NaN for what is none."""
    array = constants.get(name, np.empty(0))
    return float(array.item()) if array.size == 1 and array.dtype.kind in "fiu" else math.nan


def _is_of_channels(mean: Node, constants: Mapping[str, np.ndarray]) -> bool:
    axes = mean.attributes.get("axes")
    if len(mean.inputs) > 1:
        axes = constants.get(mean.inputs[1], np.empty(0)).tolist()
    return axes in ([-1], [2]) and bool(mean.attributes.get("keepdims", 1))
