"""Lite residual modules: small branches beside frozen blocks, that start by adding nothing.

Cai et al., "TinyTL", NeurIPS 2020 (arXiv 2007.11622). Theirs have group normalisation behind both
convolutions; here there is none, as there is none left in the network beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from tinytrain.network.node import Node

OPS = ("pointwise", "depthwise", "pointwise")  # of a block that can have a module


@dataclass(frozen=True)
class Module:
    """Lite residual module of a block whose layers are `first` to `last`.

    The block's input is averaged over 2 x 2 pixels (a side of 1 stays), passes through `layers` (a grouped
    convolution with ReLU6, a pointwise one), is interpolated to the size of the block's output and added
    to it. `index` is the number of the first of `layers` in `Network.all_layers`.
    """

    index: int
    first: int
    last: int
    layers: tuple[Node, Node]

    @property
    def indices(self) -> tuple[int, int]:
        """The numbers of both of its layers."""
        return self.index, self.index + 1

    def nodes(self, read: str, block: Node) -> tuple[Node, ...]:
        """Its operations, from the output `read` before the block that ends with node `block`."""
        filtered, projected = self.layers
        name, size = f"{filtered.name} input", (filtered.cin, filtered.cin, 2, 2)
        halve = Node(name, "halve", *size, (0, 0), filtered.in_hw, None, block.block, (read,), pad=0)
        geometry = projected.cout, projected.cout, 1, 1, projected.out_hw, block.out_hw
        total = Node(
            f"{projected.name} sum", "widen", *geometry, None, block.block, (block.name, projected.name)
        )
        return halve, filtered, projected, total


def possible_modules(layers: tuple[Node, ...]) -> tuple[Module, ...]:
    """A module for each block that expands, filters and projects; its size follows from the block's.

    The filter is as wide as the block's input and has the block's stride; its kernel is 5, or the
    largest odd number that the halved image has rows and columns for.
    """
    found: list[Module] = []
    for _, members in groupby(enumerate(layers), lambda item: item[1].block):
        numbers, block = zip(*members, strict=True)
        if tuple(layer.op for layer in block) == OPS and not block[-1].activation:
            index = len(layers) + 2 * len(found)
            found.append(Module(index, numbers[0], numbers[-1], _module_layers(*block)))
    return tuple(found)


def _module_layers(expand: Node, depthwise: Node, project: Node) -> tuple[Node, Node]:
    half = tuple(max(1, side // 2) for side in expand.in_hw)
    kernel = min(5, min(half) - 1 + min(half) % 2)
    pad, stride, block, cin = (kernel - 1) // 2, depthwise.stride, project.block, expand.cin
    out = tuple((side + 2 * pad - kernel) // stride[0] + 1 for side in half)
    name = f"{expand.name.rpartition('.')[0] or block}.lite"
    return (
        Node(f"{name}.filter", "grouped", cin, cin, kernel, stride, half, out, "relu6", block),
        Node(f"{name}.project", "pointwise", cin, project.cout, 1, 1, out, out, None, block),
    )


def with_branches(nodes: tuple[Node, ...], modules: Mapping[str, Module]) -> tuple[Node, ...]:
    """`nodes` and those of `modules`, which are by the name of the node that ends their block, in order."""
    if not modules:
        return nodes
    made: list[Node] = []
    sums: dict[str, str] = {}  # name of what a block gives with its module, by that without
    for node in nodes:
        made.append(replace(node, inputs=tuple(sums.get(name, name) for name in node.inputs)))
        if node.name in modules:
            read = next(k for k, other in enumerate(made) if other.block == node.block) - 1
            made += modules[node.name].nodes(made[read].name, made[-1])
            sums[node.name] = made[-1].name
    return tuple(made)
