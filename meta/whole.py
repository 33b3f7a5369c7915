"""A network of which every weight and bias is trained for thousands of steps: embeddings and exact gradients.

An adaptation is held to a budget and computes every forward pass again before its backward pass. Here memory
is no limit: every micro-batch of a step keeps a workspace of its own between the two, which saves a quarter
of the work. Passes are planned segments of kernel calls; losses and optimizers stay in numpy, because the
engine's own optimizer keeps bfloat16 moments, which suit 40 steps and not thousands.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.arena import Arena, Interval, place
from tinytrain.binding import Binder, WorkingCopy, run
from tinytrain.compile import Program
from tinytrain.emit import Emitter, Tape
from tinytrain.network import Network
from tinytrain.plan import Recipe, Update
from tinytrain.program import Buffer, Segment, View
from tinytrain.segments import Slot, embed_segment, externals_of, slots, trained_parts

PARTITIONS = 2  # gradient accumulators: part of the result, unlike the number of lanes that fill them


class Whole:
    """`capacity` is the most pictures of one step, `micro` the pictures per pass, `lanes` the workers.

    Micro-batch b belongs to partition ``b % PARTITIONS``, so the number of lanes changes the time and
    never a bit of the result. Without `trained` it only embeds.
    """

    def __init__(self, network: Network, capacity: int, micro: int = 5, lanes: int = 1, trained: bool = True):
        self.network, self.micro = network, micro
        layers = network.layers if trained else ()
        updates = tuple(Update(i, tuple(range(layer.cout)), bias=True) for i, layer in enumerate(layers))
        recipe = Recipe("whole", updates, ((0.0, 0.0),) * len(updates))
        self.slots: tuple[Slot, ...] = slots(network, recipe)
        self.size = sum(s.size for s in self.slots)
        self.working = WorkingCopy(network)
        program, self.split = _program(network, recipe, self.size, micro, math.ceil(capacity / micro))
        bind = Binder(program, Arena(program.nbytes), self.working, kernel_table.load())
        self.embedders = [_Batch(bind, "embed", f"lane {p}") for p in range(PARTITIONS)]
        self.batches = []
        if trained:
            self.gradients = [bind.array(f"gradients {p}") for p in range(PARTITIONS)]
            count = math.ceil(capacity / micro)
            self.batches = [_Batch(bind, "train", f"batch {b}", b % PARTITIONS) for b in range(count)]
        self.pool = ThreadPoolExecutor(PARTITIONS) if lanes > 1 else None

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown()

    @property
    def values(self) -> np.ndarray:
        """All weights and biases, (numbers,) float32, in the order of `slots`: a copy."""
        return np.concatenate([self.working.part(s.layer, s.part).reshape(-1) for s in self.slots])

    @values.setter
    def values(self, values: np.ndarray) -> None:
        for s in self.slots:
            part = self.working.part(s.layer, s.part)
            np.copyto(part, values[s.start : s.start + s.size].reshape(part.shape))

    @property
    def gradient(self) -> np.ndarray:
        """The gradient (numbers,) float32 that `backward` left; valid until the next call."""
        return self.gradients[0]

    def embed(self, pictures: np.ndarray) -> np.ndarray:
        """Embeddings (n, d) float32 of any number of uint8 pictures (n, size, size, 3)."""
        out = np.empty((len(pictures), self.network.embedding_size), np.float32)

        def work(p: int) -> None:
            batch = self.embedders[p]
            for first in range(p * self.micro, len(pictures), PARTITIONS * self.micro):
                batch.load(pictures[first : first + self.micro])
                run(batch.calls)
                out[first : first + self.micro] = batch.embeddings[: len(pictures) - first]

        self._on_lanes(work)
        return out

    def forward(self, pictures: np.ndarray) -> np.ndarray:
        """Embeddings (n, d) of the pictures of one step, n up to the capacity; `backward` may follow."""
        self.count = len(pictures)
        out = np.empty((self.count, self.network.embedding_size), np.float32)

        def work(p: int) -> None:
            for b, first in self._batches(p):
                batch = self.batches[b]
                batch.load(pictures[first : first + self.micro])
                run(batch.calls[: self.split])
                out[first : first + self.micro] = batch.embeddings[: self.count - first]

        self._on_lanes(work)
        return out

    def backward(self, gradient: np.ndarray) -> None:
        """Into `self.gradient`, after `forward`: that of a loss with `gradient` (n, d) in the embeddings."""

        def work(p: int) -> None:
            self.gradients[p].fill(0)
            for b, first in self._batches(p):
                batch = self.batches[b]
                rows = gradient[first : first + self.micro]
                batch.grad_embedding.fill(0)  # what pads a micro-batch adds nothing
                batch.grad_embedding[: len(rows)] = rows
                run(batch.calls[self.split :])

        self._on_lanes(work)
        for other in self.gradients[1:]:
            self.gradients[0] += other

    def _batches(self, p: int):
        """(micro-batch, its first picture) of partition p in the step at work."""
        count = math.ceil(self.count / self.micro)
        return [(b, b * self.micro) for b in range(p, count, PARTITIONS)]

    def _on_lanes(self, work) -> None:
        run_all = self.pool.map if self.pool else map
        for _ in run_all(work, range(PARTITIONS)):
            pass


class _Batch:
    """One micro-batch: its pictures, its workspace, the calls bound to them."""

    def __init__(self, bind: Binder, segment: str, unit: str, partition: int | None = None):
        external = bind.program.externals
        self.pictures = bind.array(f"pictures ({unit})")
        self.pictures.fill(0)
        views = {external["features"]: self.pictures}
        if partition is not None:
            self.grad_embedding = bind.array(f"embedding gradient ({unit})")
            views[external["grad embedding"]] = self.grad_embedding
            views[external["gradients"]] = bind.array(f"gradients {partition}")
        self.calls, (self.embeddings,) = bind.segment(
            bind.program.segments[segment], f"workspace ({unit})", views
        )

    def load(self, pictures: np.ndarray) -> None:
        self.pictures[: len(pictures)] = pictures


def _train_segment(network: Network, recipe: Recipe, externals, micro: int) -> tuple[Segment, int]:
    """Forward pass, embeddings, backward pass; and the number of calls before the latter."""
    segment = Segment("train", micro, external=set(externals.values()))
    emitter, last = Emitter(segment, network), len(network.layers)
    tape = Tape(0, trained_parts(network, recipe, externals["gradients"]))
    features, grad = (externals[name] for name in ("features", "grad embedding"))
    y = emitter.forward(View(features, (micro, *features.shape)), 0, last, tape)
    segment.outputs = (emitter.pool(y),)
    split = len(segment.calls)
    emitter.backward(emitter.pool_grad(View(grad, (micro, *grad.shape))), 0, last, tape)
    return segment.finish(keep=segment.outputs), split


def _program(network: Network, recipe: Recipe, size: int, micro: int, count: int) -> tuple[Program, int]:
    """The program of `count` micro-batches that are all alive at once, and where their segment splits."""
    externals = externals_of(network, 0, size)
    segments, split = {"embed": embed_segment(network, 0, micro, externals)}, 0
    units = [(f"lane {p}", "embed") for p in range(PARTITIONS)]
    buffers: dict[str, Buffer] = {}

    def add(name: str, shape: tuple[int, ...], dtype: str = "float32") -> None:
        buffers[name] = Buffer(name, shape, dtype)

    if size:
        segments["train"], split = _train_segment(network, recipe, externals, micro)
        units += [(f"batch {b}", "train") for b in range(count)]
        for p in range(PARTITIONS):
            add(f"gradients {p}", (size,))
    for unit, segment in units:
        add(f"pictures ({unit})", (micro, *externals["features"].shape), "uint8")
        add(f"workspace ({unit})", (segments[segment].nbytes,), "uint8")
        if segment == "train":
            add(f"embedding gradient ({unit})", (micro, network.embedding_size))
    layout = place([Interval(name, b.nbytes, 0, 0) for name, b in buffers.items()])
    index = {i.name: o for i, o in zip(layout.intervals, layout.offsets, strict=True)}
    return Program(network, segments, buffers, layout, externals, {"index": index}), split


def network_of(network: Network, slots: tuple[Slot, ...], values: np.ndarray, name: str) -> Network:
    """The float32 network with the weights and biases of the flat vector `values`."""
    arrays = {
        (s.layer, s.part): np.array(values[s.start : s.start + s.size], np.float32).reshape(s.shape)
        for s in slots
    }
    n = range(len(network.layers))
    weights, biases = (tuple(arrays[i, part] for i in n) for part in ("weight", "bias"))
    return Network(name, network.layers, weights, (None,) * len(n), biases, network.preprocessing)
