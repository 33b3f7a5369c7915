"""Features of images at the input of a layer, in 8 bits, computed without an adaptation."""

import numpy as np

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


def features_of(network: Network, layer: int, images: Images, kernels) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n, height, width, channels) uint8 and their ranges (n, 2) float32.

    `layer` opens a block: a cut there has the same features in the cache of an adaptation.
    """
    # The program of any training with its cut there has the frozen part that leaves these features.
    recipe = Recipe("none", (Update(layer, bias=True),), ((0.0, 0.0),), steps=1, head="cosine")
    working = WorkingCopy(network)
    program = compile_training(working.network, recipe, ONE_IMAGE, TaskShape(1, 2))
    unit = QueryUnit(Binder(program, Arena(program.nbytes), working, kernels))
    codes = np.empty((len(images), *program.externals["features"].shape), np.uint8)
    ranges = np.empty((len(images), 2), np.float32)
    with one_thread():
        for i in range(len(images)):
            unit.show(images.image(i, network.input.shape))
            kernels.quantize(codes[i].reshape(-1), ranges[i], unit.run_frozen().reshape(-1))
    return codes, ranges
