"""Compiled forward passes: images in, embeddings or features out, one image at a time in each worker."""

import os
import threading
import weakref
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.arena import Arena
from tinytrain.base.errors import AnswerError, one_line
from tinytrain.delta.delta import Changes, Delta, apply
from tinytrain.episode.episode import Images
from tinytrain.episode.kind import Change
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.plan.recipe import MOST_WORKERS
from tinytrain.program.backends.registry import FLOAT32
from tinytrain.program.backends.working_copy import working_copy
from tinytrain.program.forward import compile_forward
from tinytrain.runtime.bind import Binder, run
from tinytrain.runtime.bound_unit import BoundUnit
from tinytrain.runtime.thread_pool import Hand, Workers, cores

IMAGES_OF_WORKER = 8  # at least, so that a further one is worth its start


class Embedder:
    """`network`, with `delta` applied if one is given, compiled for one image at a time.

    `precision` is by default that of the delta, or float32. `features` are the input of the block of layer
    `cut`, by default the last one. Long lists are embedded by up to `threads` workers, by default one for
    each core that this process may use. `arena` is the bytes that those work in that there have been. Threads
    that share an embedder take turns at `embed`, and forked processes can go on with it. Raises InputError
    for a delta of another backbone.
    """

    _all: ClassVar[weakref.WeakSet] = weakref.WeakSet()

    def __init__(
        self,
        network: Network,
        delta: Changes | None = None,
        backend: str = "auto",
        precision: str | None = None,
        cut: int | None = None,
        threads: int | None = None,
    ):
        precision = precision or (delta.precision if delta else FLOAT32.name)
        program = compile_forward(apply(network, delta) if delta else network, precision, cut)
        self.network, self.program, self.kernels = program.network, program, kernel_table.load(backend)
        self._working, self._units = working_copy(program, network), []
        self.add_worker()
        self._share(threads)

    def _share(self, threads: int | None) -> None:
        self.threads = min(MOST_WORKERS, threads or cores())
        self._all.add(self)
        self.renew_turns()

    def renew_turns(self) -> None:
        """A forked process lacks the threads whose turn it may be: nobody else would let go of locks."""
        self._turns, self._growing = [threading.Lock() for _ in range(MOST_WORKERS)], threading.Lock()

    @property
    def arena(self) -> int:
        return len(self._units) * self.program.nbytes

    @property
    def workers(self) -> int:
        """How many there have been."""
        return len(self._units)

    def add_worker(self) -> None:
        bind = Binder(self.program, Arena(self.program.nbytes), self._working, self.kernels)
        self._units.append(BoundUnit(bind, self.program.units["embed"][0], ("prefix", "embed"), 1))

    def embed(
        self,
        images: Images,
        augmentation: Callable[[int], Change | None] = lambda i: None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Embeddings (n, d) float32 of images, each augmented by `augmentation(i)`, in `out` if it is given.

        Raises AnswerError ``network-not-finite`` if one holds NaN or infinity.
        """
        count = len(images)
        out = np.empty((count, self.network.embedding_size), np.float32) if out is None else out
        hands = max(1, min(self.threads, count // IMAGES_OF_WORKER))
        numbers = {Hand(): k for k in range(hands)}

        def look(hand: Hand, i: int) -> None:
            k, image = numbers[hand], images.image(i, self.network.input)
            with self._turns[k]:
                out[i] = self.embedding(image, augmentation(i), k)
            if not np.isfinite(out[i]).all():
                raise AnswerError(
                    "network-not-finite",
                    f"{one_line(self.network.name, 100)} gives NaN or infinity for image"
                    f" {one_line(images.names[i], 200)}: its values, or the delta's, are too large; use"
                    " others",
                )

        with self._growing:
            while self.workers < hands:
                self.add_worker()
        others = Workers(hands - 1)
        try:
            with np.errstate(all="ignore"):  # what overflows is said above, in one line
                others.in_turns([*numbers], count, look)
        finally:
            others.close()
        return out

    def codes(self, images: Images) -> tuple[np.ndarray, np.ndarray]:
        """Features of images in 8 bits, as a `Replay` has them and as the cache of an adaptation has them.

        They are codes (n, height, width, channels) uint8 and ranges (n, 2) float32.
        """
        codes = np.empty((len(images), *self.program.externals["features"].shape), np.uint8)
        ranges = np.empty((len(images), 2), np.float32)
        for i in range(len(images)):
            features = self.features(images.image(i, self.network.input))
            at = self.network, self.program.purpose.start
            self.program.backend.keep_features(self.kernels, *at, features, codes[i], ranges[i])
        return codes, ranges

    def features(self, image: np.ndarray, augmentation: Change | None = None, worker: int = 0) -> np.ndarray:
        """Features of an image (height, width, channels) uint8; valid until the next call of a worker."""
        unit = self._units[worker]
        unit.show(image)
        unit.augment(augmentation)
        if ("prefix", 1) in unit.segments:
            run(unit.segments["prefix", 1][0])
        return unit.frozen

    def embedding(self, image: np.ndarray, augmentation: Change | None = None, worker: int = 0) -> np.ndarray:
        """Embedding (d,) of such an image; valid until the next call of a worker."""
        features, unit = self.features(image, augmentation, worker), self._units[worker]
        np.copyto(unit.features[0], features.reshape(unit.features[0].shape))
        calls, (embedding,) = unit.segments["embed", 1]
        run(calls)
        return embedding[0]


class SideBySide(Embedder):
    """The embeddings of a committee: those of its members, each of length 1, one after another.

    Members look at an image in turn, and each keeps the bytes that it works in: `arena` is their sum.
    """

    def __init__(
        self,
        committee: Committee,
        changes: tuple[Changes, ...] | None = None,
        backend: str = "auto",
        threads: int | None = None,
    ):
        parts = changes or (None,) * len(committee.members)
        self.members = [Embedder(n, part, backend) for n, part in zip(committee.members, parts, strict=True)]
        self.network, self.kernels = committee, self.members[0].kernels
        self._share(threads)

    @property
    def arena(self) -> int:
        return sum(member.arena for member in self.members)

    @property
    def workers(self) -> int:
        return min(member.workers for member in self.members)

    def add_worker(self) -> None:
        for member in self.members:
            member.add_worker()

    def embedding(self, image: np.ndarray, augmentation: Change | None = None, worker: int = 0) -> np.ndarray:
        parts = [member.embedding(image, augmentation, worker)[None] for member in self.members]
        for part in parts:
            self.kernels.normalize_rows(part)
        return np.concatenate(parts, axis=1)[0]


def embedder_of(
    network: Network | Committee,
    delta: Delta | None = None,
    backend: str = "auto",
    threads: int | None = None,
) -> Embedder:
    """What embeds images by `network`, with `delta` applied if one is given. Raises what `Embedder` does."""
    if not isinstance(network, Committee):
        return Embedder(network, delta, backend, threads=threads)
    if delta is not None:
        delta.check_backbone(network)
    return SideBySide(network, delta.members if delta else None, backend, threads)


def _turns_anew() -> None:
    for embedder in Embedder._all:
        embedder.renew_turns()


os.register_at_fork(after_in_child=_turns_anew)
