"""Rows of the caller's image: how many of them a device holds at a time, and where."""

import math
from dataclasses import dataclass

import numpy as np

from tinytrain.network.node import Node
from tinytrain.program.program import Program
from tinytrain.program.stages import Augment, Repeat, nodes

PAIR = 2  # that pixels of a turned copy lie between


@dataclass(frozen=True)
class ImageRows:
    """`count` rows of `row_bytes`, `offset` bytes behind the beginning of each of the `workspaces`, by name.

    `last_first`: a pass asks for the last rows of an image before the first ones.
    """

    count: int
    row_bytes: int
    offset: int
    last_first: bool
    workspaces: frozenset[str]

    @property
    def end(self) -> int:
        """Bytes of a workspace up to their end."""
        return self.offset + self.count * self.row_bytes


def image_rows(program: Program) -> ImageRows:
    """What the frozen part of `program` reads.

    A float32 program reads a whole image, which is made of rows before anything is computed in the workspace.
    In int8 it asks for some rows at a time; those that it asks for again are held.
    """
    spec, prefix = program.network.input, program.segments.get(("prefix", 1))
    some = prefix is not None and any(call.kernel == "show_rows" for call in prefix.calls)
    count = max(PAIR, rows_again(program.network.layers[0]) if some else 0)
    start, last_first = prefix.nbytes if some else 0, some and spec.rotated
    row_bytes = math.prod(spec.shape[1:]) * np.dtype(spec.dtype).itemsize
    return ImageRows(count, row_bytes, start, last_first, _workspaces(program))


def rows_again(layer: Node) -> int:
    """Rows that two parts of the image have in common, when the first layer is computed in parts.

    The second part begins at a multiple of the stride.
    """
    pad, stride = layer.pad[0], layer.stride[0]
    return layer.kernel[0] - pad + (-(-pad // stride) - 1) * stride


def _workspaces(program: Program) -> frozenset[str]:
    """Of units that run the frozen part."""
    every = (n for stage in program.stages for n in nodes(stage.body) if isinstance(n, Repeat) and n.units)
    units = [u for n in every if any(isinstance(x, Augment) for x in nodes(n.body)) for u in n.units]
    return frozenset(unit.workspace.name for unit in (*units, *program.units.get("queries", ())))
