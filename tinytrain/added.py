"""The lite residual modules that a network is given before they are trained."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tinytrain.lite import Module
from tinytrain.network import Network
from tinytrain.seeds import rng_for

SEED = 0  # of the first filters: the same for every task


def with_modules(network: Network, modules: Iterable[Module]) -> Network:
    """`network` with these modules too; one that it has already keeps its values.

    The filter is drawn (He et al., ICCV 2015), the convolution behind it is zero: a new module leaves every
    embedding as it is.
    """
    new = [module for module in modules if module.index not in network.added]
    if not new:
        return network
    added = dict(network.added)
    for module in new:
        added |= _start(module)
    return replace(network, added=added)


def _start(module: Module) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Values (weight, bias) that a module starts with, by layer."""
    filtered, projected = module.layers
    drawn = rng_for(SEED, "lite residual module", module.index).standard_normal(
        (filtered.fan_in, filtered.cout), np.float32
    )
    drawn *= np.float32((2 / filtered.fan_in) ** 0.5)
    zeros = np.zeros((projected.fan_in, projected.cout), np.float32)
    return {
        module.index: (drawn, np.zeros(filtered.cout, np.float32)),
        module.index + 1: (zeros, np.zeros(projected.cout, np.float32)),
    }
