"""Converts ONNX models of the MobileNetV2 kind to networks with float32 weights, without quantisation.

`tinytrain.backbones.onnx.operators` has the rules; the result lists the dropped nodes.
`tinytrain.backbones.onnx.check` compares the result with onnxruntime.
"""

import os
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from tinytrain.backbones.onnx.graph import Part, Walk
from tinytrain.backbones.onnx.operators import OPERATIONS, SUPPORTED
from tinytrain.backbones.onnx.reading import Graph, read_onnx
from tinytrain.base.errors import InputError
from tinytrain.network.network import Layer, Network, Preprocessing
from tinytrain.network.validation import check_network

NAMED = 3  # nodes with the same problem that a message names


@dataclass(frozen=True, eq=False)
class Imported:
    """A network, its graph, the tensor of the graph that is its embedding, and the dropped nodes."""

    network: Network
    graph: Graph
    embedding: str
    dropped: tuple[str, ...]


def import_onnx(
    path: str | os.PathLike,
    mean: float = Preprocessing.mean,
    scale: float = Preprocessing.scale,
    size: int | None = None,
) -> Imported:
    """Network of the ONNX model `path`, named after the file; images become ``(uint8 - mean) * scale``.

    `size` is needed only if the file does not state the size of its input. Raises InputError: a code of
    `read_onnx`, `Walk` or `check_network`, ``onnx-size``, or ``onnx-unsupported``, which names every
    unsupported node. Takes at most 0.5 GB of memory, eight times the size of the largest file.
    """
    source, graph = str(path), read_onnx(path)
    side = _side(graph, size, source)
    walk = Walk(graph, side, OPERATIONS)
    if walk.problems:
        raise InputError("onnx-unsupported", f"{source}: {_listed(walk)}; supported are {SUPPORTED}")
    if walk.pooled is None or not walk.parts:
        raise InputError(
            "onnx-unsupported",
            f"{source}: {len(walk.parts)} convolutions and no pooling at the end; supported are {SUPPORTED}",
        )
    network = _network(walk.parts, Path(path).stem, Preprocessing(side, float(mean), float(scale)))
    check_network(network)
    dropped = tuple(f"{node.op} {node.name}" for node in walk.dropped)
    return Imported(network, graph, walk.pooled, dropped)


def _side(graph: Graph, size: int | None, source: str) -> int:
    """Side of the square image: the one in the file, or else `size`."""
    stated = {side for side in graph.shape[2:] if side is not None}
    if not stated and size is None:
        raise InputError("onnx-size", f"{source} does not state the size of its input; give --size PIXELS")
    if len(stated | {size} - {None}) != 1:
        raise InputError(
            "onnx-size",
            f"{source} takes images of {' x '.join(str(side or 'any') for side in graph.shape[2:])}"
            f"{f', --size is {size}' if size else ''}; supported are squares of one size",
        )
    return (stated or {size}).pop()


def _listed(walk: Walk) -> str:
    """All unsupported nodes: operation, names and reason, grouped by problem."""
    rows = sorted(((node.op, why, node.name) for node, why in walk.problems), key=lambda row: row[:2])
    lines = []
    for (op, why), group in groupby(rows, key=lambda row: row[:2]):
        names = [name[:60] for _, _, name in group]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(f"{op} ({', '.join(names[:NAMED])}{more}): {why}")
    count = f"{len(rows)} nodes are" if len(rows) > 1 else "1 node is"
    return f"{count} not supported: {'; '.join(lines)}"


def _network(parts: list[Part], name: str, preprocessing: Preprocessing) -> Network:
    blocks = block_numbers(parts)
    names = _layer_names(parts, blocks)
    rows = zip(parts, names, blocks, strict=True)
    layers = tuple(_layer(part, layer_name, block) for part, layer_name, block in rows)
    weights, biases = [], []
    with np.errstate(over="ignore"):  # check_network reports values that are too large for float32
        for part, layer in zip(parts, layers, strict=True):
            matrix = part.weight.transpose(2, 3, 1, 0).reshape(layer.fan_in, layer.cout)
            weights.append(np.ascontiguousarray(matrix, np.float32))
            biases.append(part.bias.astype(np.float32))
    return Network(name, layers, tuple(weights), (None,) * len(layers), tuple(biases), preprocessing)


def _layer(part: Part, name: str, block: int) -> Layer:
    return Layer(
        name, part.kind, part.reads.channels, len(part.weight), part.weight.shape[2], part.stride,
        part.reads.hw, part.out_hw, part.relu6, block, residual=part.adds is not None,
    )  # fmt: skip


def block_numbers(parts: list[Part]) -> list[int]:
    """Block of each convolution. The stem is block 0, and a residual addition spans exactly one block.

    Otherwise a block ends with a convolution without activation, or with the pointwise convolution after its
    depthwise one.
    """
    spans = [(part.adds + 1, k) for k, part in enumerate(parts) if part.adds is not None]
    starts = {1} | {first for first, _ in spans} | {last + 1 for _, last in spans}
    inside = {k for first, last in spans for k in range(first + 1, last + 1)}
    numbers, kinds = [], set()
    for k in range(len(parts)):
        before = parts[k - 1]
        ended = not before.relu6 or (before.kind == "pointwise" and "depthwise" in kinds)
        if k and (k in starts or (k not in inside and ended)):
            numbers.append(numbers[-1] + 1)
            kinds = set()
        else:
            numbers.append(numbers[-1] if numbers else 0)
        kinds.add(parts[k].kind)
    return numbers


def _layer_names(parts: list[Part], blocks: list[int]) -> list[str]:
    """``stem``, ``block0.expand``, ``block0.depthwise``, ``block0.project``; repeated names get a number."""
    names: list[str] = []
    for k, (part, block) in enumerate(zip(parts, blocks, strict=True)):
        inside = [parts[i].kind for i in range(k) if blocks[i] == block]
        role = "project" if "depthwise" in inside else "expand"
        name = f"block{block - 1}.{part.kind if part.kind == 'depthwise' else role}" if k else "stem"
        again = sum(other.rstrip("0123456789") == name for other in names)
        names.append(f"{name}{again + 1}" if again else name)
    return names
