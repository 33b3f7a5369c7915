"""Converts ONNX models of convolutional networks to ours: float32 weights, or int8 as in a quantised model.

`tinytrain.backbones.onnx.operators` has the rules; the result lists the dropped nodes.
`tinytrain.backbones.onnx.check` compares the result with onnxruntime.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tinytrain.backbones.onnx.fusing import fused
from tinytrain.backbones.onnx.graph import Part, Walk
from tinytrain.backbones.onnx.operators import OPERATIONS
from tinytrain.backbones.onnx.quantised import BEFORE, as_int8, int8_problems
from tinytrain.backbones.onnx.reading import Graph, read_onnx
from tinytrain.backbones.onnx.tokens import READ_TOKENS
from tinytrain.base.errors import InputError
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node
from tinytrain.network.quantisation import int8_obstacle
from tinytrain.network.validation import CHANNELS, check_network

NAMED = 3  # problems that a message names, in the order of the graph
SUPPORTED = (
    "MobileNets, EfficientNet-Lite, SqueezeNets, ResNets of basic blocks, CCTs and DeiTs are supported:"
    " export such a model, or take one that 'tinytrain backbones' lists; all operations are in"
    " docs/own-network.md"
)


@dataclass(frozen=True, eq=False)
class Imported:
    """A network, the graph it came from, the tensor there that is its embedding, and the nodes left out.

    `fed` is how images become the input of the graph; what it does to their values first is part of the
    network's own.
    """

    network: Network
    fed: InputSpec
    graph: Graph
    embedding: str
    dropped: tuple[str, ...]


def import_onnx(
    path: str | os.PathLike,
    mean: float | Sequence[float] = InputSpec.mean,
    scale: float | Sequence[float] = InputSpec.scale,
    size: int | None = None,
    spec: InputSpec | None = None,
) -> Imported:
    """Network of the ONNX model `path`, named after the file; images become ``(uint8 - mean) * scale``.

    `mean` and `scale` are numbers, or hold one for each channel. `size` is needed only where the file leaves
    the size of its input open. For another kind of input give what the file takes as `spec` instead of all
    these: then it has any number of channels. Raises InputError: a code of `read_onnx`, `Walk` or
    `check_network`, ``bad-value``, or ``unsupported``, which names the first nodes in the way. A file takes
    at most 0.5 GB of memory, eight times the size of the largest.
    """
    source, graph = str(path), read_onnx(path, CHANNELS if spec is None else spec.shape[2:])
    hw = _hw(graph, size, source) if spec is None else _hw_of(spec, graph)
    graph = replace(graph, nodes=fused(graph.nodes, graph.constants))
    walk = Walk(graph, hw, OPERATIONS, READ_TOKENS)
    if walk.problems:
        raise InputError("unsupported", f"{source}: {_listed(walk, graph)}; {SUPPORTED}")
    if walk.pooled is None or not walk.parts:
        filters = sum(part.weight is not None for part in walk.parts)
        raise InputError(
            "unsupported",
            f"{source}: {filters} convolutions and no pooling at the end; {SUPPORTED}",
        )
    each = (float(x) if np.ndim(x) == 0 else tuple(map(float, x)) for x in (mean, scale))
    fed = spec or InputSpec((*hw, len(walk.gain)), InputSpec.dtype, *each)
    network = _network(walk.parts, Path(path).stem, fed, rotated=False not in walk.turned)
    check_network(network)
    network = replace(network, input=_normalised(fed, walk))
    check_network(network)
    if walk.noted:
        network = _in_int8(network, walk, graph)
    dropped = tuple(f"{node.op} {node.name}" for node in walk.dropped)
    return Imported(network, fed, graph, walk.pooled, dropped)


def _normalised(fed: InputSpec, walk: Walk) -> InputSpec:
    """`fed`, and behind it what the graph does to the values of the image first."""
    with np.errstate(all="ignore"):  # what is too large or too small is found, and named, by check_network
        scale = np.array(fed.scale) * walk.gain
        mean = np.array(fed.mean) - walk.offset / scale
    rotated = False not in walk.turned
    return replace(fed, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()), rotated=rotated)


def _hw(graph: Graph, size: int | None, source: str) -> tuple[int, int]:
    """Height and width of the image: what the file says, and `size` for what it leaves open."""
    stated = [side for side in graph.shape[2:] if side is not None]
    if not stated and size is None:
        raise InputError("bad-value", f"{source} leaves the size of its input open; give --size PIXELS")
    if size is not None and set(stated) - {size}:
        given = " x ".join(str(side or "any") for side in graph.shape[2:])
        raise InputError("bad-value", f"{source} takes images of {given}, --size says {size}; leave it out")
    height, width = (side or size or stated[0] for side in graph.shape[2:])
    return height, width


def _hw_of(spec: InputSpec, graph: Graph) -> tuple[int, int]:
    """Height and width of `spec`, which must be what the file says, as far as it says something."""
    stated, asked = graph.shape[2:], spec.shape[:2]
    if any(side not in (None, wanted) for side, wanted in zip(stated, asked, strict=True)):
        given, said = (" x ".join(str(side or "any") for side in sides) for sides in (stated, asked))
        raise InputError("bad-value", f"{graph.source} takes {given}, spec says {said}; give what it takes")
    return asked


def _listed(walk: Walk, graph: Graph) -> str:
    """How many nodes are unsupported, and the first reasons, each with the first of its nodes."""
    names: dict[tuple[str, str], list[str]] = {}
    for node, why in walk.problems:
        names.setdefault((node.op, why), []).append(node.name[:60])
    lines = []
    for (op, why), (first, *others) in [*names.items()][:NAMED]:
        more = f" and {len(others)} more" if others else ""
        lines.append(f"{op} ({first}{more}): {why}")
    rest = f"; and {len(names) - NAMED} other reasons" if len(names) > NAMED else ""
    count = f"{len(walk.problems)} of {len(graph.nodes)} operations"
    return f"{count} cannot be imported; first {'; '.join(lines)}{rest}"


def _network(parts: list[Part], name: str, spec: InputSpec, rotated: bool) -> Network:
    blocks = block_numbers(parts)
    names = _names(parts, blocks)
    nodes = tuple(_node(parts, k, names, blocks[k]) for k in range(len(parts)))
    weights, biases = [], []
    with np.errstate(over="ignore"):  # check_network reports values that are too large for float32
        for part, node in zip(parts, nodes, strict=True):
            if part.weight is not None:
                weights.append(_matrix(part.weight, node, rotated, np.float32))
                biases.append(part.bias.astype(np.float32))
    return Network(name, nodes, tuple(weights), (None,) * len(weights), tuple(biases), spec)


def _matrix(weight: np.ndarray, layer: Node, rotated: bool, dtype) -> np.ndarray:
    """A weight (out, in / groups, k, k) as a network has it."""
    weight = weight[:, :, ::-1, ::-1] if rotated else weight
    return np.ascontiguousarray(weight.transpose(2, 3, 1, 0).reshape(layer.fan_in, layer.cout), dtype)


def _in_int8(network: Network, walk: Walk, graph: Graph) -> Network:
    """`network` with the weights and codes of a quantised graph."""
    walk.problems += int8_problems(walk, network)
    if walk.problems:
        raise InputError("unsupported", f"{walk.source}: {_listed(walk, graph)}; {BEFORE}")
    rotated = False not in walk.turned
    network = as_int8(walk, network, lambda weight, layer: _matrix(weight, layer, rotated, np.int8))
    check_network(network)
    if obstacle := int8_obstacle(network):
        raise InputError("unsupported", f"{walk.source}: {obstacle}; {BEFORE}")
    return network


def _node(parts: list[Part], k: int, names: list[str], block: int) -> Node:
    part, sources = parts[k], parts[k].sources
    in_hw = (1, 1) if part.kind == "excite" else part.reads[0].hw
    shape = part.reads[0].channels, part.channels, part.kernel, part.stride, in_hw, part.out_hw
    inputs = () if sources == [k - 1] else tuple(names[source] for source in sources)
    return Node(
        names[k], part.kind, *shape, part.activation, block, inputs, pad=part.pad, attributes=part.attributes
    )


def block_numbers(parts: list[Part]) -> list[int]:
    """Block of each part. The stem is block 0; a block reads what the last part of the one before gives.

    What is added spans exactly one block. Otherwise a block ends with a convolution without activation, or
    with the pointwise convolution after its depthwise one, and a dense convolution behind the first is a
    block of its own. What has no weights belongs to the block before it.
    """
    spans = [(min(part.sources) + 1, k) for k, part in enumerate(parts) if part.added]
    starts = {1} | {first for first, _ in spans} | {last + 1 for _, last in spans}
    inside = {b for k, part in enumerate(parts) for b in range(min(part.sources) + 2, k + 1)}
    inside |= {k for k, part in enumerate(parts) if part.weight is None}
    starts |= {k + 1 for k in starts & inside}
    numbers, kinds = [], set()
    for k in range(len(parts)):
        before = parts[k - 1]
        ended = not before.activation or (before.kind == "pointwise" and "depthwise" in kinds)
        ended |= "conv" in (before.kind, parts[k].kind)
        if k and k not in inside and (k in starts or ended):
            numbers.append(numbers[-1] + 1)
            kinds = set()
        else:
            numbers.append(numbers[-1] if numbers else 0)
        kinds.add(parts[k].kind)
    return numbers


def _names(parts: list[Part], blocks: list[int]) -> list[str]:
    """``stem``, ``block0.expand``, ``block0.depthwise``, ``block0.project``; repeated names get a number."""
    names: list[str] = []
    for k, (part, block) in enumerate(zip(parts, blocks, strict=True)):
        inside = [parts[i].kind for i in range(k) if blocks[i] == block]
        role = "project" if "depthwise" in inside else "expand"
        aside = part.added and part.sources[0] != k - 1
        role = "shortcut" if aside else role if part.kind == "pointwise" else part.kind
        name = f"block{block - 1}.{role}" if k else "stem"
        if part.kind == "max-pool":
            name = f"{names[part.sources[0]]}.max_pool"
        again = sum(other.rstrip("0123456789") == name for other in names)
        names.append(f"{name}{again + 1}" if again else name)
    return names
