"""The straight-line code of an adaptation: frozen part, embedding, backward pass, Fisher scoring."""

from collections.abc import Container, Iterable
from typing import NamedTuple

import numpy as np

from tinytrain.network.network import Network, with_modules
from tinytrain.plan.costs import cut_layer, n_trained
from tinytrain.plan.recipe import Recipe, trained_modules
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.backend import Backend
from tinytrain.program.backends.registry import FLOAT32, find_backend
from tinytrain.program.calls import Buffer, Call, Role, Segment, View
from tinytrain.program.trained_arrays import trained_parts

TEMPERATURE = np.float32(10)  # of the loss of Fisher scoring
UNTRAINED = ("prefix", "embed")  # kinds of segments that do not depend on what is trained


def externals_of(network: Network, start: int, trained: int, backend: Backend = FLOAT32) -> dict[str, Buffer]:
    """Buffers that segments read or write and that each worker places for itself.

    Shapes are those of one image; a segment for n images uses n of them, one after another. In int8 the image
    that the frozen part reads is nowhere.
    """
    spec, first, size = network.input, network.layers[start], network.embedding_size
    shown = Role.SHOWN if backend.shows_rows and start else Role.IMAGE
    dtype = spec.dtype if start == 0 else backend.dtype
    return {
        "input": Buffer("input", spec.shape, spec.dtype, shown),
        "features": Buffer("features", (*first.in_hw, first.cin), dtype, Role.FEATURES),
        "grad embedding": Buffer("grad embedding", (size,), role=Role.EMBEDDING_GRADIENTS),
        "gradients": Buffer("gradients", (trained,), role=Role.GRADIENTS),
    }


class Size(NamedTuple):
    """What is kept of a segment that was emitted to see how many bytes it takes."""

    kind: str
    nbytes: int


class SegmentBank:
    """The segments of one recipe, and their sizes, which are the same in all candidate programs.

    `row_tile` is that of `Emitter`, `backend` by default that of the recipe; `network` the given one with the
    lite residual modules that are trained. Segments that do not depend on what is trained are taken from one
    of the `others`, if it has them for the same layers.
    """

    def __init__(
        self,
        network: Network,
        recipe: Recipe,
        row_tile: int | None = None,
        backend: Backend | None = None,
        others: Iterable["SegmentBank"] = (),
    ):
        network = with_modules(network, trained_modules(network, recipe.updates))
        self.network, self.recipe, self.row_tile = network, recipe, row_tile
        self.backend = backend or find_backend(recipe.precision)
        self.cut = min(cut_layer(network, recipe.updates), len(network.layers) - 1)
        self.start = network.block_start(self.cut)
        trained = n_trained(network, recipe.updates)
        self.externals = externals_of(network, self.start, trained, self.backend)
        self._sizes: dict[tuple[str, int], Size] = {}
        for other in filter(self._is_like, others):
            self.externals |= {n: b for n, b in other.externals.items() if n != "gradients"}
            self._sizes |= {key: size for key, size in other._sizes.items() if key[0] in UNTRAINED}
            break

    def _is_like(self, other: "SegmentBank") -> bool:
        """Whether the frozen part and the embedding of another recipe are the same calls."""
        mine, its = ((bank.network, bank.start, bank.row_tile, bank.backend) for bank in (self, other))
        return mine == its

    def size(self, kind: str, n: int) -> Size:
        """Of a segment as in `segments`, which is emitted once. Its calls take more memory than all sizes."""
        if (kind, n) not in self._sizes:
            made = self._emit(kind, n)
            self._sizes |= {(segment.kind, n): Size(segment.kind, segment.nbytes) for segment in made}
        return self._sizes[kind, n]

    def segments(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Segment]:
        """Segments "prefix", "embed", "backward", "forward" or "back", each for a number of images."""
        found: dict[tuple[str, int], Segment] = {}
        for kind, n in wanted:
            if (kind, n) not in found:
                found |= {(segment.kind, n): segment for segment in self._emit(kind, n)}
        return found

    def _emit(self, kind: str, n: int) -> tuple[Segment, ...]:
        network, external, how = self.network, self.externals, (self.row_tile, self.backend)
        if kind == "prefix":
            return (prefix_segment(network, self.start, external, *how),)
        if kind == "embed":
            return (embed_segment(network, self.start, n, external, *how),)
        segment = Segment("backward", n, external=set(external.values()), backend=self.backend)
        emitter = self.backend.emitter(segment, network, self.row_tile)
        tape = Tape(self.cut, trained_parts(network, self.recipe, external["gradients"]))
        y = emitter.forward(external["features"].images(n), self.start, len(network.layers), tape)
        if kind != "backward":  # in two halves, between which its gradient is found from the embeddings
            segment.outputs = (emitter.pool(y),)
        at = len(segment.calls)
        g = emitter.pool_grad(external["grad embedding"].images(n))
        emitter.backward(g, self.start, len(network.layers), tape)
        segment.finish()
        return (segment,) if kind == "backward" else segment.halves(("forward", "back"), at)


def prefix_segment(
    network: Network, start: int, externals, row_tile: int | None = None, backend: Backend = FLOAT32
) -> Segment:
    """Features (the input of layer `start`) of one image; larger row tiles are faster and take more bytes."""
    segment = Segment("prefix", 1, external=set(externals.values()), backend=backend)
    emitter = backend.emitter(segment, network, row_tile)
    segment.outputs = (emitter.forward(externals["input"].images(1), 0, start),)
    return segment.finish(keep=segment.outputs)


def embed_segment(
    network: Network, start: int, n: int, externals: dict[str, Buffer], row_tile: int | None = None,
    backend: Backend = FLOAT32,
) -> Segment:  # fmt: skip
    """Embeddings (n, d) from features."""
    segment = Segment("embed", n, external=set(externals.values()), backend=backend)
    emitter = backend.emitter(segment, network, row_tile)
    y = emitter.forward(externals["features"].images(n), start, len(network.layers))
    segment.outputs = (emitter.pool(y),)
    return segment.finish(keep=segment.outputs)


def fisher_segment(
    network: Network, start: int, inspected, way: int, externals, backend: Backend = FLOAT32
) -> Segment:
    """Forward and backward pass of one image that adds to the Fisher information of inspected layers."""
    segment = Segment("fisher", 1, external=set(externals.values()), backend=backend)
    emitter = backend.emitter(segment, network)
    last = len(network.layers)
    starts = [i for i in range(start, last) if network.block_start(i) == i]
    inputs = [externals["features"].images(1)]
    for a, b in zip(starts, [*starts[1:], last], strict=True):
        inputs.append(emitter.forward(inputs[-1], a, b))
    embedding = emitter.pool(inputs.pop())
    g = emitter.pool_grad(loss_calls(segment, embedding, way, externals))
    cut = min(inspected)
    for a, b, x in reversed(list(zip(starts, [*starts[1:], last], inputs, strict=True))):
        tape = Tape(cut, hooked=frozenset(inspected))
        emitter.forward(x, a, b, tape)

        def hook(i, gradient, channel, tape=tape):
            if i in tape.output:
                emitter.add_fisher(i, externals[f"fisher {i}"].whole, tape.output[i], gradient, channel)

        g = emitter.backward(g, a, b, tape, hook)
    return segment.finish(keep=segment.outputs)


def turns(segment: Segment, shared: Container[Buffer]) -> list[range]:
    """Ranges of calls that add to `shared` buffers, in rising order.

    All calls that add to the same number are in one of them. Between two ranges other calls may be left over:
    while a worker is at one range, others can be at another.
    """
    adding = [(k, views) for k, call in enumerate(segment.calls) if (views := _added_to(call, shared))]
    last: dict[Buffer, np.ndarray] = {}  # the last call that adds to each number
    for k, views in adding:
        for view in views:
            numbers = last.setdefault(view.buffer, np.zeros(view.buffer.shape, int)).reshape(-1)
            numbers[view.start : view.start + view.span] = k
    found: list[range] = []
    for k, views in adding:
        end = max(int(last[v.buffer].reshape(-1)[v.start : v.start + v.span].max()) for v in views) + 1
        if found and k < found[-1].stop:
            found[-1] = range(found[-1].start, max(end, found[-1].stop))
        else:
            found.append(range(k, end))
    return found


def _added_to(call: Call, buffers: Container[Buffer]) -> list[View]:
    pairs = zip(call.signature.arrays.values(), call.arrays, strict=True)
    return [v for a, v in pairs if a.is_written and isinstance(v, View) and v.buffer in buffers]


def loss_calls(segment: Segment, embedding: View, way: int, externals) -> View:
    """Gradient (1, d) of the cross-entropy of one embedding, prototypes constant."""
    loss = segment.new("loss", 1)
    residual, cosine = segment.new("residual", 1, way), segment.new("cosine", 1, way)
    g = segment.new("gradient of embedding", *embedding.shape)
    label, prototypes = externals["label"].whole, externals["prototypes"].whole
    segment.call("prototype_loss", loss, residual, cosine, embedding, label, prototypes, TEMPERATURE)
    segment.call("prototype_loss_grad", g, residual, cosine, embedding, prototypes, TEMPERATURE)
    segment.outputs = (loss,)
    return g
