"""The straight-line code of an adaptation: frozen part, embedding, backward pass, probe."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tinytrain.added import with_modules
from tinytrain.emit import Emitter
from tinytrain.network import Network
from tinytrain.plan import Recipe, cut_layer, n_trained, trained_modules
from tinytrain.program import Buffer, Columns, Segment, View
from tinytrain.tape import Tape, Trained

TEMPERATURE = np.float32(10)  # of the probe's loss


@dataclass(frozen=True)
class Slot:
    """Where one trained array lies in the flat vector of trained numbers.

    `channels` are the columns of the weight or the entries of the bias; `inputs` the rows of the
    weight, None for all.
    """

    layer: int
    part: str  # "weight" or "bias"
    start: int
    shape: tuple[int, ...]
    channels: tuple[int, ...]
    inputs: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        return self.shape[0] * (self.shape[1] if len(self.shape) == 2 else 1)


def slots(network: Network, recipe: Recipe) -> tuple[Slot, ...]:
    """Slots of a recipe's trained arrays, in layer order, weights before biases, channels in rising order."""
    found, start = [], 0
    for update in recipe.updates:
        layer = network.all_layers[update.layer]
        if update.channels:
            inputs = None if update.inputs is None else tuple(sorted(update.inputs))
            shape = (layer.fan_in if inputs is None else len(inputs), len(update.channels))
            channels = tuple(sorted(update.channels))
            found.append(Slot(update.layer, "weight", start, shape, channels, inputs))
            start += found[-1].size
        if update.bias:
            found.append(Slot(update.layer, "bias", start, (layer.cout,), tuple(range(layer.cout))))
            start += layer.cout
    return tuple(found)


def columns_of(slots: Iterable[Slot]) -> dict[Columns, np.ndarray]:
    """The index arrays that the calls of a program name."""
    weights = [slot for slot in slots if slot.part == "weight"]
    found = {Columns(s.layer): np.array(s.channels, np.int32) for s in weights}
    some = (s for s in weights if s.inputs is not None)
    return found | {Columns(s.layer, "inputs"): np.array(s.inputs, np.int32) for s in some}


def externals_of(network: Network, start: int, trained: int) -> dict[str, Buffer]:
    """Buffers that segments read or write and that each lane places for itself.

    Shapes are those of one picture; a segment for n pictures uses n of them, one after another.
    """
    size = network.preprocessing.size
    first = network.layers[start]
    dtype = "uint8" if start == 0 else "float32"
    return {
        "input": Buffer("input", (size, size, 3), "uint8"),
        "features": Buffer("features", (*first.in_hw, first.cin), dtype),
        "grad embedding": Buffer("grad embedding", (network.embedding_size,)),
        "gradients": Buffer("gradients", (trained,)),
    }


class SegmentBank:
    """The segments of one recipe, emitted when first asked for and shared by all candidate programs.

    `network` is the given one with the lite residual modules that the recipe trains.
    """

    def __init__(self, network: Network, recipe: Recipe, band: int | None = None):
        network = with_modules(network, trained_modules(network, recipe.updates))
        self.network, self.recipe, self.band = network, recipe, band
        self.cut = min(cut_layer(network, recipe.updates), len(network.layers) - 1)
        self.start = network.block_start(self.cut)
        self.externals = externals_of(network, self.start, n_trained(network, recipe.updates))
        self._made: dict[str, Segment] = {}

    def get(self, name: str) -> Segment:
        """Segment "prefix", "embed N" or "backward N" for N pictures."""
        if name not in self._made:
            kind, _, count = name.partition(" ")
            emit: dict[str, Callable[[int], Segment]] = {
                "prefix": lambda n: prefix_segment(self.network, self.start, self.externals, self.band),
                "embed": lambda n: embed_segment(self.network, self.start, n, self.externals, self.band),
                "backward": self._backward,
            }
            self._made[name] = emit[kind](int(count or 1))
        return self._made[name]

    def _backward(self, n: int) -> Segment:
        network, external = self.network, self.externals
        segment = Segment(f"backward {n}", n, external=set(external.values()))
        emitter = Emitter(segment, network, self.band)
        tape = Tape(self.cut, trained_parts(network, self.recipe, external["gradients"]))
        emitter.forward(external["features"].pictures(n), self.start, len(network.layers), tape)
        g = emitter.pool_grad(external["grad embedding"].pictures(n))
        emitter.backward(g, self.start, len(network.layers), tape)
        return segment.finish()


def prefix_segment(network: Network, start: int, externals, band: int | None = None) -> Segment:
    """Features (the input of layer `start`) of one picture; wider bands are faster and take more bytes."""
    segment = Segment("prefix", 1, external=set(externals.values()))
    segment.outputs = (Emitter(segment, network, band).forward(externals["input"].pictures(1), 0, start),)
    return segment.finish(keep=segment.outputs)


def embed_segment(
    network: Network, start: int, n: int, externals: dict[str, Buffer], band: int | None = None
) -> Segment:
    """Embeddings (n, d) from features."""
    segment = Segment(f"embed {n}", n, external=set(externals.values()))
    emitter = Emitter(segment, network, band)
    y = emitter.forward(externals["features"].pictures(n), start, len(network.layers))
    segment.outputs = (emitter.pool(y),)
    return segment.finish(keep=segment.outputs)


def trained_parts(network: Network, recipe: Recipe, gradients: Buffer) -> dict[int, Trained]:
    """Where the gradient of each trained layer lies in the flat vector of gradients."""
    parts: dict[int, dict] = {}
    for slot in slots(network, recipe):
        row = parts.setdefault(slot.layer, dict.fromkeys(("weight", "bias", "channels", "inputs")))
        row[slot.part] = View(gradients, slot.shape, slot.start)
        if slot.part == "weight" and len(slot.channels) < network.all_layers[slot.layer].cout:
            row["channels"] = len(slot.channels)
        if slot.inputs is not None:
            row["inputs"] = len(slot.inputs)
    return {layer: Trained(**row) for layer, row in parts.items()}


def tap_segment(network: Network, start: int, inspected, way: int, externals) -> Segment:
    """Forward and backward pass of one picture that adds to the Fisher information of inspected layers."""
    segment = Segment("tap", 1, external=set(externals.values()))
    emitter = Emitter(segment, network)
    last = len(network.layers)
    starts = [i for i in range(start, last) if network.block_start(i) == i]
    inputs = [externals["features"].pictures(1)]
    for a, b in zip(starts, [*starts[1:], last], strict=True):
        inputs.append(emitter.forward(inputs[-1], a, b))
    embedding = emitter.pool(inputs.pop())
    g = emitter.pool_grad(_loss_calls(segment, embedding, way, externals))
    cut = min(inspected)
    for a, b, x in reversed(list(zip(starts, [*starts[1:], last], inputs, strict=True))):
        tape = Tape(cut, tapped=frozenset(inspected))
        emitter.forward(x, a, b, tape)

        def tap(i, gradient, tape=tape):
            if i in tape.output:
                channels = network.layers[i].cout
                dots = segment.new("fisher dots", channels)
                total = externals[f"fisher {i}"].whole
                segment.call("add_fisher", total, dots, tape.output[i].matrix, gradient.matrix)

        g = emitter.backward(g, a, b, tape, tap)
    return segment.finish(keep=segment.outputs)


def _loss_calls(segment: Segment, embedding: View, way: int, externals) -> View:
    """Gradient (1, d) of the cross-entropy of one embedding, prototypes constant."""
    loss = segment.new("loss", 1)
    residual, cosine = segment.new("residual", 1, way), segment.new("cosine", 1, way)
    g = segment.new("gradient of embedding", *embedding.shape)
    label, prototypes = externals["label"].whole, externals["prototypes"].whole
    segment.call("prototype_loss", loss, residual, cosine, embedding, label, prototypes, TEMPERATURE)
    segment.call("prototype_loss_grad", g, residual, cosine, embedding, prototypes, TEMPERATURE)
    segment.outputs = (loss,)
    return g
