"""Small networks that are no chains of square filters: branches, rectangles, other windows, leaky ReLU."""

from dataclasses import replace

from toynets import centred, drawn, rng

from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node

LEAKY = {"activation": "leaky-relu", "attributes": (("slope", 0.2), ("floor", -0.4))}
RELU = {"activation": "relu"}


class Nodes:
    """Nodes one after another; what they read, and so their shapes, is the one before or is named."""

    def __init__(self, spec: InputSpec):
        self.spec, self.made, self.block = spec, [], 0

    def add(self, op, cout=None, kernel=1, stride=1, inputs=(), **more):
        read = [next(n for n in self.made if n.name == name) for name in inputs] or self.made[-1:]
        shapes = [(node.cout, node.out_hw) for node in read] or [(self.spec.shape[2], self.spec.shape[:2])]
        cout = cout or (sum(c for c, _ in shapes) if op == "concat" else shapes[0][0])
        node = Node(
            f"{len(self.made)}.{op}", op, shapes[0][0], cout, kernel, stride, shapes[0][1],
            more.pop("out_hw", shapes[0][1]), more.pop("activation", None), self.block, tuple(inputs), **more,
        )  # fmt: skip
        self.made.append(replace(node, out_hw=node.row.result(node, shapes)[1]))
        return self.made[-1].name

    def network(self, name: str, seed=0) -> Network:
        return centred(drawn(name, tuple(self.made), rng(name, seed), self.spec))


def fire(size=20, seed=0) -> Network:
    """As SqueezeNet is: branches put side by side; a pool whose last window lacks its end."""
    made = Nodes(InputSpec((size, size, 3)))
    made.add("conv", 6, 3, 2, pad=0, **RELU)
    made.add("max-pool", kernel=3, stride=2, pad=0, out_hw=(4, 4))
    for cout in (5, 7):
        made.block += 1
        squeezed = made.add("pointwise", 4, **RELU)
        one = made.add("pointwise", cout, **RELU)
        three = made.add("conv", cout, 3, inputs=(squeezed,), **RELU)
        made.add("concat", inputs=(one, three))
    made.block += 1
    made.add("pointwise", 9, **RELU)
    return made.network("fire", seed)


def speech(seed=0) -> Network:
    """As an encoder of sound is: filters of one row or one column, leaky ReLU with a floor, narrow pools."""
    made = Nodes(InputSpec((22, 16, 1)))
    made.add("conv", 5, 3, pad=(0, 1), **LEAKY)
    for window in ((2, 2), (1, 2)):
        made.block += 1
        made.add("conv", 6, (1, 3), **LEAKY)
        made.add("conv", 7, (3, 1), pad=0, **LEAKY)
        made.add("max-pool", kernel=window, stride=window, pad=0)
    made.block += 1
    made.add("conv", 8, (3, 1), pad=0)
    return made.network("speech", seed)


def many_channels(seed=0) -> Network:
    """Six channels a position, as two sensors of three axes give; a sum beside a branch of two layers."""
    made = Nodes(InputSpec((24, 1, 6), kind="motion"))
    stem = made.add("conv", 8, (3, 1), **RELU)
    made.block += 1
    first = made.add("conv", 8, (5, 1), **RELU)
    made.add("pointwise", 8, inputs=(first, stem), **RELU)
    made.add("conv", 6, (3, 1), 1, **RELU)
    return made.network("channels", seed)


def branches(seed=0) -> Network:
    """Branches of one, two and three layers that meet: some behind the first trained layer need nothing."""
    made = Nodes(InputSpec((14, 14, 3)))
    stem = made.add("conv", 6, 3, 2, **RELU)
    made.block += 1
    ends = []
    for ops in (("pointwise",), ("pointwise", "depthwise"), ("conv", "pointwise", "depthwise")):
        last = stem
        for op in ops:
            last = made.add(op, 6, 1 if op == "pointwise" else 3, inputs=(last,), **RELU)
        ends.append(last)
    made.add("concat", inputs=ends)
    made.add("pointwise", 7)
    return made.network("branches", seed)


HEADS, EPSILON = {"attributes": (("heads", 2.0), ("scale", 0.4))}, {"attributes": (("epsilon", 1e-5),)}


def _attended(made: Nodes, read: str, added: str, *mark: str) -> str:
    """Attention of what `read` gives, and a projection to which something is `added`."""
    heads = [made.add("pointwise", 8, inputs=(read,)) for _ in range(3)]
    made.add("attention", inputs=(*heads, *mark), **HEADS)
    return made.add("pointwise", 8, inputs=(made.made[-1].name, added))


def tokens(seed=0) -> Network:
    """As a compact convolutional transformer is: convolutions, places, norms first, a weighted mean."""
    made = Nodes(InputSpec((12, 10, 3)))
    made.add("conv", 8, 3, 2, **RELU)
    made.add("max-pool", kernel=3, stride=2, pad=1, out_hw=(3, 3))
    start = made.add("position", 8)
    made.block += 1
    total = _attended(made, made.add("layer-norm", 8, **EPSILON), start)
    made.block += 1
    normed = made.add("layer-norm", 8, inputs=(total,), **EPSILON)
    made.add("pointwise", 12, activation="gelu")
    made.add("pointwise", 8, inputs=(made.made[-1].name, normed))
    made.block += 1
    last = made.add("layer-norm", 8, **EPSILON)
    made.add("sequence-pool", inputs=(last, made.add("pointwise", 1)), out_hw=(1, 1))
    return made.network("tokens", seed)


def patches(seed=0) -> Network:
    """As a vision transformer is: squares side by side, before them a token that becomes the embedding."""
    made = Nodes(InputSpec((12, 9, 3)))
    made.add("conv", 8, 3, 3, pad=0)
    start = made.add("position", 8, out_hw=(13, 1))
    made.block += 1
    total = _attended(made, made.add("layer-norm", 8, **EPSILON), start)
    made.block += 1
    made.add("layer-norm", 8, **EPSILON)
    made.add("pointwise", 12, activation="gelu")
    made.add("pointwise", 8, inputs=(made.made[-1].name, total))
    made.block += 1
    made.add("layer-norm", 8, **EPSILON)
    made.add("max-pool", stride=(13, 1), pad=0)
    return made.network("patches", seed)


def words(seed=0) -> Network:
    """As an encoder of text is: words, some of them unknown, norms behind sums, the mean over all words."""
    made = Nodes(InputSpec((9, 1, 1), "uint8", 0.0, 1.0, kind="words"))
    named = made.add("words", 8, attributes=(("vocabulary", 160.0),))
    made.add("position")
    start = made.add("layer-norm", 8, inputs=(made.made[-1].name, named), **EPSILON)
    made.block += 1
    total = _attended(made, start, start, start)
    normed = made.add("layer-norm", 8, inputs=(total, start), **EPSILON)
    made.block += 1
    made.add("pointwise", 12, activation="gelu")
    made.add("pointwise", 8, inputs=(made.made[-1].name, normed))
    made.add("layer-norm", **EPSILON)  # what it gives for unknown words counts, and their gradients do
    made.add("sequence-pool", out_hw=(1, 1))
    return made.network("words", seed)


GRAPHS = {
    "branches": branches, "fire": fire, "speech": speech, "channels": many_channels, "tokens": tokens,
    "patches": patches, "words": words,
}  # fmt: skip
