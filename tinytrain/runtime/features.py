"""Features of images at the input of a layer, in 8 bits, computed without an adaptation."""

import numpy as np

from tinytrain.episode.episode import Images
from tinytrain.kernels.blas import one_thread
from tinytrain.network.network import Network
from tinytrain.network.replay import range_of, remembered_codes
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.program.compile import compile_training
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import Binder
from tinytrain.runtime.bound_unit import QueryUnit
from tinytrain.runtime.int8_copy import working_copy
from tinytrain.runtime.predict import ONE_IMAGE


def features_of(
    network: Network, layer: int, images: Images, kernels, precision: str = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n, height, width, channels) uint8 and their ranges (n, 2) float32, as a `Replay` has them.

    `layer` opens a block: a cut there has the same features in the cache of an adaptation in `precision`.
    """
    # The program of any training with its cut there has the frozen part that leaves these features.
    recipe = Recipe("none", (Update(layer, bias=True),), ((0.0, 0.0),), steps=1, head="cosine")
    program = compile_training(network, recipe.in_precision(precision), ONE_IMAGE, TaskShape(1, 2))
    unit = QueryUnit(Binder(program, Arena(program.nbytes), working_copy(program), kernels))
    codes = np.empty((len(images), *program.externals["features"].shape), np.uint8)
    ranges = np.empty((len(images), 2), np.float32)
    with one_thread():
        for i in range(len(images)):
            unit.show(images.image(i, network.input.shape))
            features = unit.run_frozen()
            if precision == "int8":
                remembered_codes(codes[i], features)
                ranges[i] = range_of(network.quantisation.given(layer - 1))
            else:
                kernels.quantize(codes[i].reshape(-1), ranges[i], features.reshape(-1))
    return codes, ranges
