"""Lite residual modules: small branches beside frozen blocks, that start by adding nothing.

Cai et al., "TinyTL", NeurIPS 2020 (arXiv 2007.11622). Theirs have group normalisation behind both
convolutions; here there is none, as there is none left in the network beside them.
"""

from dataclasses import dataclass
from itertools import groupby

from tinytrain.network.layer import Layer

KINDS = ("pointwise", "depthwise", "pointwise")  # of a block that can have a module


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
    layers: tuple[Layer, Layer]

    @property
    def indices(self) -> tuple[int, int]:
        """The numbers of both of its layers."""
        return self.index, self.index + 1


def possible_modules(layers: tuple[Layer, ...]) -> tuple[Module, ...]:
    """A module for each block that expands, filters and projects; its size follows from the block's.

    The filter is as wide as the block's input and has the block's stride; its kernel is 5, or the
    largest odd number that the halved image has rows and columns for.
    """
    found: list[Module] = []
    for _, members in groupby(enumerate(layers), lambda item: item[1].block):
        numbers, block = zip(*members, strict=True)
        if tuple(layer.kind for layer in block) == KINDS and not block[-1].follows:
            index = len(layers) + 2 * len(found)
            found.append(Module(index, numbers[0], numbers[-1], _module_layers(*block)))
    return tuple(found)


def _module_layers(expand: Layer, depthwise: Layer, project: Layer) -> tuple[Layer, Layer]:
    half = tuple(max(1, side // 2) for side in expand.in_hw)
    kernel = min(5, min(half) - 1 + min(half) % 2)
    pad, stride, block, cin = (kernel - 1) // 2, depthwise.stride, project.block, expand.cin
    out = tuple((side + 2 * pad - kernel) // stride + 1 for side in half)
    name = f"{expand.name.rpartition('.')[0] or block}.lite"
    return (
        Layer(f"{name}.filter", "grouped", cin, cin, kernel, stride, half, out, True, block),
        Layer(f"{name}.project", "pointwise", cin, project.cout, 1, 1, out, out, False, block),
    )
