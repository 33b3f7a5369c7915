"""One operation of a network as data, and the table of what operations are."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

# Activations, each with the names of the numbers that it takes from a node's `attributes`.
ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "relu6": (),
    "relu": (),
    "hard-swish": (),
    "hard-sigmoid": (),
    "leaky-relu": ("slope", "floor"),
    "gelu": (),
}
# Operations that take such numbers themselves.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "attention": ("heads", "scale"),
    "layer-norm": ("epsilon",),
    "words": ("vocabulary",),
}
Pair = tuple[int, int]
Shape = tuple[int, Pair]  # channels, and (rows, columns)


@dataclass(frozen=True)
class Node:
    """One operation: what it reads and gives, and how it is set up.

    `op` is a row of `OPS`. `inputs` are names of earlier nodes whose outputs it reads; without names, that is
    the node before, or the image. A convolution adds its second input, if there is one, to its result. Then
    comes the `activation`, one of `ACTIVATIONS` or None. `cin` and `in_hw` are channels, rows and columns of
    the first input, `cout` and `out_hw` those of the output. `kernel`, `stride` and `pad` are for rows and
    columns, or one number for both; the usual `pad` is (kernel - 1) // 2.

    `block` counts the blocks of the network (the stem is block 0). A block reads one value of those before
    it: what the last node of the block before gives. `rate` is a factor of the learning rates that policies
    give the node, which meta-training may have found. `attributes` are other numbers, by name, in order.
    """

    name: str
    op: str
    cin: int
    cout: int
    kernel: Pair
    stride: Pair
    in_hw: Pair
    out_hw: Pair
    activation: str | None
    block: int
    inputs: tuple[str, ...] = ()
    rate: float = 1.0
    pad: Pair | None = None
    attributes: tuple[tuple[str, float], ...] = ()

    def __post_init__(self):
        for name in ("kernel", "stride", "pad"):
            if type(value := getattr(self, name)) is int:
                object.__setattr__(self, name, (value, value))
        if self.pad is None and is_pair(self.kernel):
            object.__setattr__(self, "pad", tuple((side - 1) // 2 for side in self.kernel))

    def numbers(self, *names: str) -> tuple[float, ...]:
        """Those of its `attributes`."""
        known = dict(self.attributes)
        return tuple(known[name] for name in names)

    @property
    def row(self) -> "Op":
        return OPS[self.op]

    @property
    def is_layer(self) -> bool:
        """Whether it has weights and a bias."""
        return self.row.filter_hw is not None

    @property
    def adds(self) -> bool:
        """Whether it is a convolution to whose result something is added."""
        return self.row.is_dense and len(self.inputs) > 1

    @cached_property
    def filter_hw(self) -> Pair:
        """Rows and columns of what its convolution gives; of its output if it has none."""
        return self.row.filter_hw(self) if self.is_layer else self.out_hw

    @property
    def is_usual(self) -> bool:
        """Whether its filter is a square, as far over the edges as keeps the size, with one stride."""
        (rows, columns), (down, across) = self.kernel, self.stride
        return rows == columns and down == across and self.pad == ((rows - 1) // 2,) * 2

    @property
    def groups(self) -> int:
        """Parts into which the input channels fall, each read by as large a part of the output channels."""
        return self.row.counts.groups(self)

    @cached_property
    def fan_in(self) -> int:
        """Rows of the weight matrix: weights per output channel."""
        return self.row.counts.fan_in(self) if self.is_layer else 0

    @cached_property
    def uses(self) -> int:
        """Multiplications of each weight in the forward pass for one image."""
        return self.row.counts.uses(self) if self.is_layer else 0

    @property
    def n_weights(self) -> int:
        return self.fan_in * self.cout

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of the forward pass for one image."""
        return self.uses * self.n_weights + self.row.counts.products(self)

    def passed_macs(self, needed: tuple[bool, ...]) -> int:
        """Those of the gradients of its inputs, for one image; of each, whether it is `needed`."""
        weights = self.uses * self.n_weights if needed[0] else 0
        return weights + self.row.counts.passed(self, needed)

    @property
    def in_size(self) -> int:
        """Numbers in the input of one image."""
        return self.in_hw[0] * self.in_hw[1] * self.cin

    @property
    def out_size(self) -> int:
        """Numbers in the output of one image."""
        return self.out_hw[0] * self.out_hw[1] * self.cout

    def rows_read(self, first: int, last: int) -> Pair:
        """Rows [first, last) of its input that output rows [first, last) read."""
        low = first * self.stride[0] - self.pad[0]
        high = (last - 1) * self.stride[0] - self.pad[0] + self.kernel[0]
        return max(0, low), min(self.in_hw[0], high)


def is_pair(value) -> bool:
    return type(value) is tuple and len(value) == 2 and all(type(side) is int for side in value)


def slid(node: Node) -> Pair:
    """Rows and columns of places where a window of the node's kernel fits in its padded input."""
    sides = zip(node.in_hw, node.pad, node.kernel, node.stride, strict=True)
    height, width = ((side + 2 * pad - kernel) // stride + 1 for side, pad, kernel, stride in sides)
    return height, width


def _point(node: Node) -> Pair:
    return 1, 1


def _convolved(node: Node, given: list[Shape]) -> Shape:
    return node.cout, node.row.filter_hw(node)


@dataclass(frozen=True)
class Counts:
    """Numbers of a node: as in `Node`, or multiply-accumulates of products of its inputs with each other.

    `products(node)`: those in the forward pass; `passed(node, needed)`: those for the gradients of the
    inputs, by whether they are needed.
    """

    groups: Callable[[Node], int] = lambda node: 1
    fan_in: Callable[[Node], int] = lambda node: node.kernel[0] * node.kernel[1] * node.cin // node.groups
    uses: Callable[[Node], int] = lambda node: node.filter_hw[0] * node.filter_hw[1]
    products: Callable[[Node], int] = lambda node: 0
    passed: Callable[[Node, tuple[bool, ...]], int] = lambda node, needed: 0


@dataclass(frozen=True)
class Op:
    """What an operation is, by shapes and numbers; `tinytrain.program.autodiff.ops` has its calls.

    `inputs`: how many it reads, at the least and the most. `filter_hw(node)`: the size of what its
    convolution gives, None for an operation without weights. `result(node, given)`: shape of its output, from
    those of its inputs. `groups(node)`: as in `Node`.
    `same_channels`: each output channel is made of the same input channel.

    What can be trained of a convolution are output channels and biases; if `by_input`, also the weights of
    some input channels alone. `is_dense`: it is a dense convolution of feature maps, whose channels
    can stand for those of its block where they are ranked, and it may add a second input.
    `in_int8`, `in_c`: whether it is written in int8, and in C. `is_inner`: no file has it.
    """

    filter_hw: Callable[[Node], Pair] | None
    result: Callable[[Node, list[Shape]], Shape] = _convolved
    inputs: Pair = (1, 1)
    counts: Counts = Counts()
    same_channels: bool = False
    by_input: bool = False
    is_dense: bool = False
    in_int8: bool = False
    in_c: bool = False
    is_inner: bool = False


def _halves(node: Node) -> int:
    return 2 if node.cin % 2 == node.cout % 2 == 0 else 1


def _excited(node: Node, given: list[Shape]) -> Shape:
    return given[1]


def _pooled(node: Node, given: list[Shape]) -> Shape:
    """Every window begins inside of the input or of the padding before it; the last may lack its end."""
    sides = zip(slid(node), node.in_hw, node.pad, node.stride, node.out_hw, strict=True)
    kept = (
        out if whole <= out <= (side - 1 + pad) // step + 1 else whole
        for whole, side, pad, step, out in sides
    )
    return node.cin, tuple(kept)


def _beside(node: Node, given: list[Shape]) -> Shape:
    sizes = {hw for _, hw in given}
    return sum(channels for channels, _ in given), node.out_hw if sizes == {node.out_hw} else (0, 0)


def _positions(node: Node) -> int:
    return node.in_hw[0] * node.in_hw[1]


def _placed(node: Node) -> Pair:
    """The size of its input, or one token more, which all images share and which comes first."""
    more = _positions(node) + 1, 1
    return more if node.out_hw == more else node.in_hw


def _attended(node: Node, given: list[Shape]) -> Shape:
    """Queries, keys and values of one shape; a fourth input says by rows of zeros which keys do not count."""
    alike = len(set(given[:3])) == 1 and all(hw == node.in_hw for _, hw in given)
    return given[0] if alike else (0, (0, 0))


def _attention_passed(node: Node, needed: tuple[bool, ...]) -> int:
    """What each key counts is computed once more, and its gradient for those of queries and keys."""
    query, key, value = needed[:3]
    count = any(needed[:3]) + value + (query or key) + query + key
    return _positions(node) ** 2 * node.cin * count


def _attention_products(node: Node) -> int:
    return 2 * _positions(node) ** 2 * node.cin


def _pooled_sequence(node: Node, given: list[Shape]) -> Shape:
    weighted = given[1:] in ([], [(1, node.in_hw)])
    return (node.cin, (1, 1)) if weighted else (0, (0, 0))


_EVERYWHERE = {"in_int8": True, "in_c": True}
OPS: dict[str, Op] = {
    "conv": Op(slid, inputs=(1, 2), is_dense=True, **_EVERYWHERE),
    "pointwise": Op(slid, inputs=(1, 2), by_input=True, is_dense=True, **_EVERYWHERE),
    "depthwise": Op(slid, counts=Counts(lambda node: node.cin), same_channels=True, **_EVERYWHERE),
    # A pointwise convolution of the mean over rows and columns.
    "squeeze": Op(_point),
    # One of a squeezed input, whose results are factors of the channels of the second input.
    "excite": Op(_point, _excited, inputs=(2, 2)),
    "max-pool": Op(None, _pooled, same_channels=True),
    "concat": Op(None, _beside, inputs=(2, 64)),
    # Of transformers, whose tokens are positions of a feature map. A row of zeros, as word 0 becomes, is no
    # token: attention and pooling pass it over. A norm with a second input leaves zeros where that has them.
    "words": Op(
        slid, counts=Counts(fan_in=lambda node: int(node.numbers("vocabulary")[0]), uses=lambda node: 0)
    ),
    "position": Op(
        _placed,
        counts=Counts(fan_in=lambda node: math.prod(node.filter_hw), uses=lambda node: 0),
        same_channels=True,
    ),
    "layer-norm": Op(
        slid, inputs=(1, 2), counts=Counts(lambda node: node.cin, uses=lambda node: 0), same_channels=True
    ),
    "attention": Op(
        None, _attended, inputs=(3, 4), counts=Counts(products=_attention_products, passed=_attention_passed)
    ),
    # The mean over all tokens, or with a second input of one channel, by the softmax of that.
    "sequence-pool": Op(
        None,
        _pooled_sequence,
        inputs=(1, 2),
        counts=Counts(
            products=lambda node: _positions(node) * node.cin,
            passed=lambda node, needed: sum(needed) * _positions(node) * node.cin,
        ),
    ),
    # Of lite residual modules.
    "halve": Op(None, is_inner=True),
    "grouped": Op(slid, counts=Counts(_halves), is_inner=True),
    "widen": Op(None, inputs=(2, 2), is_inner=True),
}


def sources_of(nodes: tuple[Node, ...]) -> tuple[tuple[int, ...], ...]:
    """Numbers of the nodes that each of `nodes` reads; -1 is the image."""
    at = {node.name: i for i, node in enumerate(nodes)}
    return tuple(tuple(at[name] for name in node.inputs) or (i - 1,) for i, node in enumerate(nodes))


def reached(sources: tuple[tuple[int, ...], ...], cut: int, asked: Iterable[int]) -> frozenset[int]:
    """Nodes of whose output a gradient is needed: `cut`, those `asked` for behind it, what reads these."""
    found = {cut, *(i for i in asked if i >= cut)}
    for i in range(cut, len(sources)):
        if not found.isdisjoint(sources[i]):
            found.add(i)
    return frozenset(found)
