"""Inference with an adapted network: the same compiled forward pass as in training, nothing else of it."""

from collections.abc import Callable

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.delta.delta import Delta, apply
from tinytrain.episode.augment import Augmentation
from tinytrain.episode.decode import load_image
from tinytrain.episode.episode import Images
from tinytrain.kernels.blas import one_thread
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.compile import compile_training
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import Binder, WorkingCopy
from tinytrain.runtime.bound_unit import QueryUnit

FORWARD_ONLY = Recipe("none", (), (), steps=0, head="cosine")
ONE_IMAGE = Resources(sets=0, micro=1, accumulators=1, step_support=1, step_queries=1)


class Predictor:
    """`network` with `delta` applied, ready to look at images one at a time.

    `arena` is the bytes that inference works in. Raises InputError for a delta of another backbone.
    """

    def __init__(self, network: Network, delta: Delta, backend: str = "auto"):
        self.delta, self.input = delta, network.input
        shape = TaskShape(1, len(delta.class_names))
        working = WorkingCopy(apply(network, delta))
        program = compile_training(working.network, FORWARD_ONLY, ONE_IMAGE, shape)
        bind = Binder(program, Arena(program.nbytes), working, kernel_table.load(backend))
        self.arena, self.embedding_size = program.nbytes, network.embedding_size
        self._unit = QueryUnit(bind)

    def embed(
        self, images: Images, augmentation: Callable[[int], Augmentation | None] = lambda i: None
    ) -> np.ndarray:
        """Embeddings (n, d) of images, each augmented by `augmentation(i)`."""
        out = np.empty((len(images), self.embedding_size), np.float32)
        with one_thread():
            for i in range(len(images)):
                np.copyto(self._unit.image, images.image(i, self.input.shape))
                out[i] = self._unit.embed(augmentation(i))
        return out

    def logits(self, images: Images) -> np.ndarray:
        """(n, way) logits of the delta's head, before its temperature."""
        return self.delta.head.logits(self.embed(images))

    def probabilities(self, images: Images) -> np.ndarray:
        """(n, way) calibrated class probabilities."""
        return self.delta.head.probabilities(self.embed(images))


def one_image(path) -> Images:
    """The image in a file, unlabelled."""
    return Images(np.zeros(1, np.int32), (str(path),), lambda i, size: load_image(path, size))
