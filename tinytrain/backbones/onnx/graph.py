"""Walks through an ONNX graph and collects its operations of ours and everything that is not supported.

Each tensor is described by a `Value`: the part that computed it, and the operations since. All
problems are collected, so that one message names them all. The operations are implemented in
`tinytrain.backbones.onnx.operators` and `tinytrain.backbones.onnx.tail`.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.backbones.onnx.folding import fold
from tinytrain.backbones.onnx.reading import Graph, Node, UnsupportedError
from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import MAX_FILE
from tinytrain.network.quantisation import Codes
from tinytrain.network.validation import MAX_LAYERS

# Limit of the numbers that all operations together read: those of the largest network file. A file can hold
# one array and thousands of operations that read it, and a network has separate weights for each.
MAX_NUMBERS = MAX_FILE // 4
NO_PADS = (0, 0, 0, 0)
MAY_BE_PADDED = ("Conv", "QuantizeLinear", "DequantizeLinear")
# Operations on (batch, rows, columns, channels); those on the image only for that.
OF_ANY_AXES = ("Transpose", "ReduceMean", "Identity", "Dropout", "Cast")
OF_THE_IMAGE = ("Add", "Sub", "Mul", "Div", "Reshape")
SUMS = ("conv", "pointwise")  # to which something may be added
IMAGE = -1  # stands for the part before the first
# Name of a value in messages, by stage.
DESCRIBED = {
    "picture": "the image",
    "linear": "a convolution",
    "active": "an activation",
    "sum": "a residual addition",
    "largest": "a MaxPool",
    "joined": "a Concat, a norm, or attention",
    "scores": "products of queries and keys",
    "shares": "a Softmax",
    "squeezed": "a pooling whose result scales channels",
    "factors": "a HardSigmoid",
    "scaled": "a Mul that scales channels",
    "pooling": "half of a pooling",
    "pooled": "the pooling at the end",
    "tail": "the pooling at the end",
}
READ = ("picture", "linear", "active", "sum", "largest", "joined", "squeezed", "scaled")  # what a Conv reads
CHANNELS_FIRST = "export the model with channels first, with tf2onnx by --inputs-as-nchw"
BRANCH = "the graph branches here, and its branches do not meet before the pooling"


class UnknownError(Exception):
    """The node reads the output of a refused node; the node itself is not the problem."""


@dataclass(frozen=True)
class Value:
    """A tensor (batch, channels, *hw): the result of part `part` after the operations of `stage`.

    "linear": none; "active"; "sum": something was added; "largest" and "joined": the results of max pooling
    and of concatenation; "squeezed": means, from which a squeeze-and-excitation gets its "factors"; "scaled"
    by them; "pooling" and "pooled": `axes` names the remaining axes by letters, 1 for an axis of size 1;
    "tail": any operation after the pooling. "scores" are products of the queries and keys in `pair`, times
    `factor`, and "shares" their softmax; channels are divided between `heads`. `pads` (top, left, bottom,
    right) are zeros around it. `axes` may be "nhwc" before the pooling, and are those of
    `tinytrain.backbones.onnx.tokens` in a transformer.
    """

    part: int
    stage: str
    channels: int
    hw: tuple[int, int]
    axes: str = "nchw"
    pads: tuple[int, int, int, int] = NO_PADS
    heads: int = 1
    pair: tuple["Value", ...] = ()
    factor: float = 1.0


@dataclass(eq=False)
class Part:
    """An operation of ours, `kind`, with the `activation` that follows it.

    A convolution has a `weight` (out, in / groups, *kernel) and a `bias` (out,), float64. `reads` are its
    inputs. `pad` is None for the usual one, which an image may need to be turned for.
    """

    kind: str
    reads: tuple[Value, ...]
    out_hw: tuple[int, int]
    weight: np.ndarray | None = None
    bias: np.ndarray | None = None
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] | None = None
    activation: str | None = None
    attributes: tuple[tuple[str, float], ...] = ()

    @property
    def added(self) -> Value | None:
        """What is added to the result of a convolution."""
        return self.reads[1] if self.kind in SUMS and len(self.reads) > 1 else None

    @property
    def sources(self) -> list[int]:
        """The parts whose results it reads."""
        return [value.part for value in self.reads]

    @property
    def channels(self) -> int:
        if self.weight is not None:
            return len(self.weight)
        return sum(value.channels for value in self.reads[: None if self.kind == "concat" else 1])


class Walk:
    """A graph followed from its image of `hw` (height, width).

    Afterwards `parts` are its operations of ours, `problems` the unsupported nodes as (node, reason),
    `pooled` the name of the embedding or None, and `dropped` the nodes of the classifier. `turned` holds
    whether the padding is ours if the image is upright (False) or turned by 180 degrees (True), or both. What
    the graph does to the values of the image first is times `gain`, then plus `offset`, both (channels,)
    float64.
    `operations` maps the name of an operation to its function (walk, node) -> Value, or None where no image
    comes out; those `of_tokens` read tokens, too.

    Raises InputError ``unsupported`` if the network would exceed the limits of a network file.
    """

    def __init__(self, graph: Graph, hw: tuple[int, int], operations: dict, of_tokens: tuple[str, ...] = ()):
        self.source, self.constants = graph.source, dict(graph.constants)
        channels = graph.shape[1]
        self.values = {graph.input: Value(IMAGE, "picture", channels, hw, graph.axes)}
        self.gain, self.offset = np.ones(channels), np.zeros(channels)
        self.readers: dict[str, int] = {}
        for node in graph.nodes:
            for name in node.inputs if node.op != "Shape" else ():
                self.readers[name] = self.readers.get(name, 0) + 1
        self.parts: list[Part] = []
        self.made_by: list[Node] = []  # the node of each part
        # Of quantised models: codes of tensors, codes of values by (part, stage), dequantised constants.
        self.codes_of: dict[str, Codes] = {}
        self.noted: dict[tuple[int, str], Codes] = {}
        self.stored: dict = {}
        self.read = self.scaled = 0  # counts of values read from constants, and of scaled weights
        self.problems: list[tuple[Node, str]] = []
        self.dropped: list[Node] = []
        self.pooled: str | None = None
        self.turned = {False, True}
        self.of_tokens = of_tokens
        for node in graph.nodes:
            self._visit(node, operations)

    def _visit(self, node: Node, operations: dict) -> None:
        if (array := fold(node, self.constants)) is not None:
            self.constants[node.outputs[0]] = array
            return
        try:
            if node.op not in operations:
                raise UnsupportedError("no such operation here")
            value = operations[node.op](self, node)
        except UnsupportedError as error:
            self.problems.append((node, str(error)))
        except UnknownError:
            pass
        else:
            if value is not None:
                self.values[node.outputs[0]] = value

    def value(self, node: Node, position: int = 0) -> Value:
        """The input of `node` at `position`."""
        name = node.inputs[position] if position < len(node.inputs) else ""
        if name in self.values:
            if name in self.codes_of and node.op != "DequantizeLinear":
                raise UnsupportedError("it reads codes of 8 bits, which only a DequantizeLinear may do")
            if self.values[name].pads != NO_PADS and node.op not in MAY_BE_PADDED:
                raise UnsupportedError("it follows a Pad, which only a Conv may do")
            value = self.values[name]
            if "p" in value.axes and node.op not in self.of_tokens:
                raise UnsupportedError("it reads tokens of a transformer")
            free = OF_ANY_AXES + (OF_THE_IMAGE if value.stage == "picture" else ())
            if value.axes != "nchw" and sorted(value.axes) == sorted("nchw") and node.op not in free:
                raise UnsupportedError(f"it reads axes in the order {value.axes}, not nchw; {CHANNELS_FIRST}")
            return value
        if name in self.constants or not name:
            raise UnsupportedError(f"input {position} is not computed from the image")
        raise UnknownError

    def changing(self, node: Node, position: int = 0, stages: tuple[str, ...] = ("linear",)) -> Value:
        """The input that `node` changes: a result in one of `stages`, read once."""
        value = self.value(node, position)
        if value.stage not in stages:
            raise UnsupportedError(f"it follows {DESCRIBED[value.stage]}")
        if self.readers[node.inputs[position]] > 1:
            raise UnsupportedError("the graph branches before it")
        return value

    def shared(self, node: Node, value: Value) -> Value:
        """`value`, the input of `node`, under the name of its output too: both share their readers."""
        source, copy = node.inputs[0], node.outputs[0]
        self.readers[copy] = self.readers.get(copy, 0) + self.readers[source] - 1
        return value

    def in_tail(self, node: Node) -> bool:
        """Whether `node` reads what the pooling at the end gives, or something made of it."""
        value = self.values.get(node.inputs[0]) if node.inputs else None
        return value is not None and value.stage in ("pooled", "tail")

    def add(self, node: Node, part: Part, stage: str) -> Value:
        """Take `part`, of `node`, in; its result."""
        self.parts.append(part)
        self.made_by.append(node)
        self.refuse_large()
        return Value(len(self.parts) - 1, stage, part.channels, part.out_hw)

    def turn(self, fits: set[bool], pads: list[int]) -> None:
        """The image lies upright (False) or turned (True), as `fits` says, for a node with `pads`."""
        if not fits & self.turned:
            raise UnsupportedError(f"padding {pads} here, and elsewhere more zeros on the opposite sides")
        self.turned &= fits

    def constant(self, node: Node, position: int, shape: tuple[int, ...] | None, what: str) -> np.ndarray:
        """Float32 constant input of `node` at `position`, as float64, of `shape` if that is given."""
        name = node.inputs[position] if position < len(node.inputs) else ""
        if name not in self.constants:
            raise UnsupportedError(f"its {what} is not a constant of the file")
        array = self.constants[name]
        if array.dtype != np.float32:
            raise UnsupportedError(f"its {what} is {array.dtype}, not float32")
        self.read += array.size
        self.refuse_large()
        if shape is not None and array.shape != shape:
            raise UnsupportedError(f"its {what} has shape {array.shape}, not {shape}")
        if not np.isfinite(array).all():
            bad = array.size - int(np.isfinite(array).sum())
            raise UnsupportedError(f"{bad} of {array.size} numbers in its {what} are NaN or infinite")
        return array.astype(np.float64)

    def refuse_large(self) -> None:
        """Refuse what no network file can hold, before it is copied."""
        if (numbers := max(self.read, self.scaled)) > MAX_NUMBERS:
            what = f"weights of at least {numbers:,} numbers, the limit is {MAX_NUMBERS:,}"
        elif len(self.parts) > MAX_LAYERS:
            what = f"{len(self.parts):,} operations, the limit is {MAX_LAYERS:,}"
        else:
            return
        raise InputError(
            "unsupported",
            f"{self.source}: its operations have {what}, with shared weights counted for each;"
            " export a smaller model",
        )
