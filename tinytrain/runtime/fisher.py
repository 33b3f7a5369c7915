"""Fisher information of every output channel of the inspected layers, for one task.

One backward pass per support image, one image alive at a time, no weight gradient formed:
``Delta_o = 1/(2N) sum_n (sum_d a_nd g_nd)^2`` (TinyTrain; Fisher pruning, Theis et al. 2018) with a
the convolution output and g the gradient of the loss in it.
"""

from collections.abc import Callable

import numpy as np

from tinytrain.episode.augment import Augmentation
from tinytrain.kernels.rows import divide_rows
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.scores import Scores
from tinytrain.program.compile import compile_probe
from tinytrain.program.program import Program
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import Binder, WorkingCopy, run


def probe(
    network: Network,
    working: WorkingCopy,
    kernels,
    inspected: tuple[int, ...],
    labels: np.ndarray,
    n_way: int,
    read: Callable[[int], np.ndarray],
    augmentation: Callable[[int], Augmentation | None],
    program: Program | None = None,
    arena: Arena | None = None,
) -> Scores:
    """Scores of the inspected layers for the images `read(i)` with `labels` (n,).

    Prototypes are the class means of the clean images, held constant; each image, augmented,
    is its own pseudo-query at temperature 10. `program` and `arena` are made if they are not given.
    """
    program = program or compile_probe(network, inspected, TaskShape(len(labels), n_way))
    runner = _Runner(program, arena or Arena(program.nbytes), working, kernels, read)
    for i, label in enumerate(labels):
        runner.add_to_prototypes(i, label)
    similarity = runner.similarity()
    runner.finish_prototypes()
    loss = sum(runner.tap(i, label, augmentation(i)) for i, label in enumerate(labels))
    count = len(labels)
    fisher = {i: runner.array(f"fisher {i}") / np.float32(count) for i in inspected}
    macs = count * sum(
        c.macs * (1 + (s.name == "prefix")) for s in program.segments.values() for c in s.calls
    )
    return Scores(fisher, loss / count, macs, program.nbytes, similarity)


class _Runner:
    def __init__(self, program: Program, arena: Arena, working: WorkingCopy, kernels, read):
        bind = Binder(program, arena, working, kernels)
        self.array, self.kernels, self.read = bind.array, kernels, read
        self.image, self.augmented = self.array("image (probe)"), self.array("augmented image (probe)")
        self.features = self.array("features (probe)")
        self.sums, self.counts = self.array("class sums"), self.array("class counts")
        self.prototypes, self.label = self.array("prototypes"), self.array("label")
        self.lengths = np.zeros(len(self.sums))  # of the embeddings of each class, summed
        fisher = [self.array(f"fisher {i}") for i in program.inspected]
        for total in (self.sums, self.counts, *fisher):
            total.fill(0)
        externals = program.externals
        views = {b: self.array(n) for n, b in externals.items() if n in program.buffers}
        views[externals["features"]] = self.features
        workspace = "workspace (probe)"
        views[externals["input"]] = self.augmented
        self.prefix_calls, (frozen,) = (), (self.augmented,)
        if "prefix" in program.segments:
            self.prefix_calls, (frozen,) = bind.segment(program.segments["prefix"], workspace, views)
        self.frozen = frozen.reshape(-1)
        self.embed_calls, (self.embedding,) = bind.segment(program.segments["embed 1"], workspace, views)
        self.tap_calls, (self.loss,) = bind.segment(program.segments["tap"], workspace, views)

    def _load(self, i: int, augmentation: Augmentation | None) -> None:
        np.copyto(self.image, self.read(i))
        if augmentation is None:
            np.copyto(self.augmented, self.image)
        else:
            self.kernels.augment(self.augmented, self.image, *augmentation.arguments())
        run(self.prefix_calls)
        np.copyto(self.features.reshape(-1), self.frozen)

    def add_to_prototypes(self, i: int, label: int) -> None:
        self._load(i, None)
        run(self.embed_calls)
        self.label[0] = label
        self.kernels.class_sums(self.sums, self.counts, self.embedding, self.label)
        # In float64, not by BLAS: portable kernels give the same bits on every processor.
        self.lengths[label] += np.sqrt(np.square(self.embedding, dtype=float).sum())

    def similarity(self) -> float:
        """Sum of the products of embeddings over all pairs of different classes, by that of their lengths."""
        total, products = np.zeros(self.sums.shape[1]), 0.0
        for row in self.sums:
            total += row
            products -= np.square(row, dtype=float).sum()
        products += np.square(total).sum()
        return float(products / (self.lengths.sum() ** 2 - np.square(self.lengths).sum()))

    def finish_prototypes(self) -> None:
        divide_rows(self.sums, self.counts, out=self.prototypes)

    def tap(self, i: int, label: int, augmentation: Augmentation | None) -> float:
        self._load(i, augmentation)
        self.label[0] = label
        run(self.tap_calls)
        return float(self.loss[0])
