"""A network of which every weight and bias is trained for thousands of steps: embeddings and exact gradients.

An adaptation is held to a budget and computes every forward pass again before its backward pass. Here memory
is no limit: every micro-batch of a step keeps a workspace of its own between the two, which saves a quarter
of the work. Passes are planned segments of kernel calls; losses and optimizers stay in numpy, because the
engine's own optimizer keeps bfloat16 moments, which suit 40 steps and not thousands.
"""

import math
from functools import partial

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.arena import Arena
from tinytrain.kernels.dispatch.native_calls import join_native
from tinytrain.meta.training.full_program import PARTITIONS, full_program, output_shapes
from tinytrain.network.network import Network
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.program.trained_arrays import Slot, slots
from tinytrain.runtime.bind import Binder, WorkingCopy, run
from tinytrain.runtime.thread_pool import Workers


class Whole:
    """`capacity` is the most images of one step, `micro` the images per pass, `workers` the threads.

    Micro-batch b belongs to partition ``b % PARTITIONS``, so the number of workers changes the time and
    never a bit of the result. Without `trained` it only embeds. `hooks` are last layers of blocks: their
    feature maps (n, height, width, channels) are handed out beside the embeddings, and a loss may act on
    them. With `block_wise`, training cuts the network behind each of them: every part but the first computes
    from an input that is handed in, and no gradient goes from one part to another.
    """

    def __init__(
        self, network: Network, capacity: int, micro: int = 5, workers: int = 1, trained: bool = True,
        hooks: tuple[int, ...] = (), block_wise: bool = False,
    ):  # fmt: skip
        self.network, self.micro, self.hooks = network, micro, hooks
        layers = network.layers if trained else ()
        updates = tuple(Update(i, tuple(range(layer.cout)), bias=True) for i, layer in enumerate(layers))
        recipe = Recipe("whole", updates, ((0.0, 0.0),) * len(updates))
        self.slots: tuple[Slot, ...] = slots(network, recipe)
        self.size = sum(s.size for s in self.slots)
        self.working = WorkingCopy(network)
        count = math.ceil(capacity / micro)
        program, split = full_program(network, recipe, self.size, micro, count, hooks, block_wise)
        bind = Binder(program, Arena(program.nbytes), self.working, kernel_table.load())
        self.embedders = [_Batch(bind, "embed", f"worker {p}") for p in range(PARTITIONS)]
        self.batches = []
        if trained:
            self.gradients = [bind.array(f"gradients {p}") for p in range(PARTITIONS)]
            self.batches = [_Batch(bind, "train", f"batch {b}", b % PARTITIONS, split) for b in range(count)]
        self.others = Workers(PARTITIONS - 1 if workers > 1 else 0)

    def close(self) -> None:
        self.others.close()

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

    def embed(self, images: np.ndarray) -> np.ndarray:
        """Embeddings (n, d) float32 of any number of uint8 images (n, size, size, 3)."""
        return self.outputs(images)[0]

    def outputs(self, images: np.ndarray) -> list[np.ndarray]:
        """Embeddings and feature maps, (n, ...) float32 each, of any number of images."""
        out = self._outputs(len(images))

        def work(p: int) -> None:
            batch = self.embedders[p]
            for first in range(p * self.micro, len(images), PARTITIONS * self.micro):
                batch.load(images[first : first + self.micro])
                run(batch.forward)
                batch.unload(out, first)

        self._on_lanes(work)
        return out

    def forward(self, images: np.ndarray, *inputs: np.ndarray) -> list[np.ndarray]:
        """What `outputs` gives of the images of one step, up to the capacity; `backward` may follow.

        `inputs` (n, ...) are those of the parts after the first in block-wise training.
        """
        self.count = len(images)
        out = self._outputs(self.count)

        def work(p: int) -> None:
            for b, first in self._batches(p):
                batch = self.batches[b]
                batch.load(images[first : first + self.micro])
                for into, whole in zip(batch.inputs, inputs, strict=True):
                    rows = whole[first : first + self.micro]
                    into[: len(rows)] = rows
                run(batch.forward)
                batch.unload(out, first)

        self._on_lanes(work)
        return out

    def backward(self, *gradients: np.ndarray) -> None:
        """Into `self.gradient`, after `forward`: that of a loss with `gradients` in what `forward` gave."""

        def work(p: int) -> None:
            self.gradients[p].fill(0)
            for b, first in self._batches(p):
                batch = self.batches[b]
                for into, whole in zip(batch.grad_outputs, gradients, strict=True):
                    rows = whole[first : first + self.micro]
                    into.fill(0)  # what pads a micro-batch adds nothing
                    into[: len(rows)] = rows
                run(batch.backward)

        self._on_lanes(work)
        for other in self.gradients[1:]:
            self.gradients[0] += other

    def _outputs(self, count: int) -> list[np.ndarray]:
        shapes = output_shapes(self.network, self.hooks).values()
        return [np.empty((count, *shape), np.float32) for shape in shapes]

    def _batches(self, p: int):
        """(micro-batch, its first image) of partition p in the step at work."""
        count = math.ceil(self.count / self.micro)
        return [(b, b * self.micro) for b in range(p, count, PARTITIONS)]

    def _on_lanes(self, work) -> None:
        self.others.run([partial(work, p) for p in range(PARTITIONS)])


class _Batch:
    """One micro-batch: its images, its workspace, the calls bound to them: the first `split` forward."""

    def __init__(
        self, bind: Binder, segment: str, unit: str, partition: int | None = None, split: int | None = None
    ):
        external = bind.program.externals
        self.images = bind.array(f"images ({unit})")
        self.images.fill(0)
        views = {external["features"]: self.images}
        if partition is not None:
            found = {kind: [n for n in external if n.startswith(f"{kind} ")] for kind in ("grad", "into")}
            arrays = {n: bind.array(f"{n} ({unit})") for names in found.values() for n in names}
            self.grad_outputs, self.inputs = ([arrays[n] for n in names] for names in found.values())
            for array in self.inputs:
                array.fill(0)
            views |= {external[n]: array for n, array in arrays.items()}
            views[external["gradients"]] = bind.array(f"gradients {partition}")
        calls, self.outputs = bind.calls(
            bind.program.segments[segment, bind.program.purpose.task.n_support],
            bind.program.buffers[f"workspace ({unit})"],
            views,
        )
        split = len(calls) if split is None else split
        self.forward, self.backward = join_native(calls[:split]), join_native(calls[split:])

    def load(self, images: np.ndarray) -> None:
        self.images[: len(images)] = images

    def unload(self, out: list[np.ndarray], first: int) -> None:
        """Copy what was computed to the rows of `out` from `first` on."""
        for whole, part in zip(out, self.outputs, strict=True):
            whole[first : first + len(part)] = part[: len(whole) - first]


def network_of(network: Network, slots: tuple[Slot, ...], values: np.ndarray, name: str) -> Network:
    """The float32 network with the weights and biases of the flat vector `values`."""
    arrays = {
        (s.layer, s.part): np.array(values[s.start : s.start + s.size], np.float32).reshape(s.shape)
        for s in slots
    }
    n = range(len(network.layers))
    weights, biases = (tuple(arrays[i, part] for i in n) for part in ("weight", "bias"))
    return Network(name, network.nodes, weights, (None,) * len(n), biases, network.input)
