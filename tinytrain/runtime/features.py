"""Features of images at the input of a layer, in 8 bits, computed without an adaptation."""

from collections.abc import Callable, Sequence

import numpy as np

from tinytrain.episode.augment import Augmentation
from tinytrain.episode.episode import Images
from tinytrain.kernels.blas import one_thread
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.program.compile import compile_training
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import Binder, WorkingCopy
from tinytrain.runtime.bound_unit import QueryUnit
from tinytrain.runtime.predict import ONE_IMAGE


def features_of(
    network: Network,
    layer: int,
    images: Images,
    views: Sequence[Callable[[int], Augmentation | None]],
    kernels,
) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n, views, height, width, channels) uint8 and their ranges (n, views, 2) float32.

    ``views[v](i)`` is the augmentation of image i in view v. `layer` opens a block: a cut there has the same
    features in the cache of an adaptation.
    """
    # The program of any training with its cut there has the frozen part that leaves these features.
    recipe = Recipe("none", (Update(layer, bias=True),), ((0.0, 0.0),), steps=1, head="cosine")
    working = WorkingCopy(network)
    program = compile_training(working.network, recipe, ONE_IMAGE, TaskShape(1, 2))
    unit = QueryUnit(Binder(program, Arena(program.nbytes), working, kernels))
    shape = (len(images), len(views))
    codes = np.empty((*shape, *program.externals["features"].shape), np.uint8)
    ranges = np.empty((*shape, 2), np.float32)
    with one_thread():
        for i in range(len(images)):
            np.copyto(unit.image, images.image(i, network.input.shape))
            for view, augmentation in enumerate(views):
                features = unit.run_frozen(augmentation(i)).reshape(-1)
                kernels.quantize(codes[i, view].reshape(-1), ranges[i, view], features)
    return codes, ranges
