"""Small branches beside frozen blocks, or beside layers of transformers, that start by adding nothing.

Lite residual modules are beside blocks: Cai et al., "TinyTL", NeurIPS 2020 (arXiv 2007.11622). Theirs have
group normalisation behind both convolutions; here there is none, as there is none left in the network beside
them. In a network with attention there are pairs of low rank beside dense layers instead: Hu et al., "LoRA",
ICLR 2022 (arXiv 2106.09685).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from tinytrain.network.node import Node

OPS = ("pointwise", "depthwise", "pointwise")  # of a block that can have a module
RANK = 4  # of a pair beside a dense layer


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

    def grow(self, made: list[Node]) -> None:
        """Put its operations behind the block that ends with the last of the nodes that are `made`."""
        block, (filtered, projected) = made[-1], self.layers
        read = made[next(k for k, other in enumerate(made) if other.block == block.block) - 1].name
        name, size = f"{filtered.name} input", (filtered.cin, filtered.cin, 2, 2)
        halve = Node(name, "halve", *size, (0, 0), filtered.in_hw, None, block.block, (read,), pad=0)
        geometry = projected.cout, projected.cout, 1, 1, projected.out_hw, block.out_hw
        total = Node(
            f"{projected.name} sum", "widen", *geometry, None, block.block, (block.name, projected.name)
        )
        made += [halve, filtered, projected, total]


class LowRank(Module):
    """Two dense layers beside one, `first` and `last`; what follows that comes behind their sum."""

    def grow(self, made: list[Node]) -> None:
        """Put them behind their layer, the last of the nodes that are `made`."""
        layer, (down, up) = made[-1], self.layers
        read = layer.inputs[0] if layer.inputs else made[-2].name
        made[-1] = replace(layer, activation=None)
        made += [
            replace(down, inputs=(read,)),
            replace(up, inputs=(down.name, layer.name), activation=layer.activation),
        ]


def _low_rank(layers: tuple[Node, ...]) -> tuple[Module, ...]:
    found: list[Module] = []
    for i, layer in enumerate(layers):
        if layer.op == "pointwise" and min(layer.cin, layer.cout) > RANK:
            down = replace(layer, name=f"{layer.name}.down", cout=RANK, activation=None, inputs=(), rate=1.0)
            up = replace(down, name=f"{layer.name}.up", cin=RANK, cout=layer.cout)
            found.append(LowRank(len(layers) + 2 * len(found), i, i, (down, up)))
    return tuple(found)


def possible_modules(layers: tuple[Node, ...], attends: bool) -> tuple[Module, ...]:
    """A module for each block that expands, filters and projects; its size follows from the block's.

    The filter is as wide as the block's input and has the block's stride; its kernel is 5, or the
    largest odd number that the halved image has rows and columns for. If the network `attends`, it is a
    `LowRank` for each dense layer.
    """
    if attends:
        return _low_rank(layers)
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
            modules[node.name].grow(made)
            sums[node.name] = made[-1].name
    return tuple(made)
