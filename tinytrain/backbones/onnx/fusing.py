"""Norms over channels and GELU, which exporters write as arithmetic, as the one operation that they are."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tinytrain.backbones.onnx.reading import Node


def fused(nodes: tuple[Node, ...], constants: dict[str, np.ndarray]) -> tuple[Node, ...]:
    """`nodes`, in which the last of each such chain stands for all of it; what nobody reads is gone."""
    chains = _Chains(nodes, constants)
    made = [chains.norm(node) or chains.gelu(node) or node for node in nodes]
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


class _Chains:
    def __init__(self, nodes: tuple[Node, ...], constants: dict[str, np.ndarray]):
        self.constants = constants
        self.by = {name: node for node in nodes for name in node.outputs}

    def _split(self, node: Node | None, op: str, wanted: Callable) -> tuple[str, str] | None:
        """The inputs of a `node` of this operation, the one that is `wanted` last."""
        if node is None or node.op != op or len(node.inputs) != 2:
            return None
        first, second = node.inputs
        pairs = ((first, second), (second, first)) if op in ("Add", "Mul") else ((first, second),)
        return next((pair for pair in pairs if wanted(pair[1])), None)

    def _number(self, value: float) -> Callable:
        return lambda name: (
            self._is_number(name) and abs(float(self.constants[name].reshape(())) - value) < 1e-4
        )

    def _is_number(self, name: str) -> bool:
        return name in self.constants and self.constants[name].size == 1

    def _is_constant(self, name: str) -> bool:
        return name in self.constants

    def norm(self, node: Node) -> Node | None:
        """((x - mean) / sqrt(mean of squares + epsilon)) * scale + bias."""
        bias = self._split(node, "Add", self._is_constant)
        scale = bias and self._split(self.by.get(bias[0]), "Mul", self._is_constant)
        over = scale and self._split(self.by.get(scale[0]), "Div", lambda name: True)
        root = over and self.by.get(over[1])
        padded = (
            root and root.op == "Sqrt" and self._split(self.by.get(root.inputs[0]), "Add", self._is_number)
        )
        square = padded and self._mean_of(padded[0])
        centred = square and self._split(self.by.get(square), "Pow", self._number(2))
        less = (
            centred and centred[0] == over[0] and self._split(self.by.get(over[0]), "Sub", lambda name: True)
        )
        if not less or self._mean_of(less[1]) != less[0]:
            return None
        numbers = {"axis": -1, "epsilon": float(self.constants[padded[1]].reshape(()))}
        inputs = (less[0], scale[1], bias[1])
        return replace(node, op="LayerNormalization", inputs=inputs, attributes=numbers)

    def _mean_of(self, name: str) -> str | None:
        """What a mean over channels alone is taken of."""
        node = self.by.get(name)
        if node is None or node.op != "ReduceMean" or not node.attributes.get("keepdims", 1):
            return None
        axes = node.attributes.get("axes")
        if len(node.inputs) > 1:
            axes = self.constants.get(node.inputs[1], np.empty(0)).tolist()
        return node.inputs[0] if axes in ([-1], [2]) else None

    def gelu(self, node: Node) -> Node | None:
        """x * (1 + erf(x / sqrt(2))) / 2, whichever two are multiplied first."""
        if node.op != "Mul" or len(node.inputs) != 2:
            return None
        parts, pending = [], [*node.inputs]
        while pending:
            name = pending.pop()
            inner = self.by.get(name)
            if inner is not None and inner.op == "Mul" and len(parts) + len(pending) < 2:
                pending += inner.inputs
            else:
                parts.append(name)
        for name in parts if len(parts) == 3 else ():
            more = self._split(self.by.get(name), "Add", self._number(1))
            erf = more and self.by.get(more[0])
            given = erf and erf.op == "Erf" and self.by.get(erf.inputs[0])
            halved = given and (
                self._split(given, "Div", self._number(math.sqrt(2)))
                or self._split(given, "Mul", self._number(math.sqrt(0.5)))
            )
            others = [other for other in parts if other != name]
            if halved and halved[0] in others and any(map(self._number(0.5), others)):
                return replace(node, op="Gelu", inputs=(halved[0],), attributes={})
        return None
