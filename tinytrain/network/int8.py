"""Float weights as int8: symmetric, with one scale per output channel."""

from dataclasses import replace

import numpy as np

from tinytrain.network.network import Network


def int8_scales(weight: np.ndarray) -> np.ndarray:
    """Steps (cout,) float32 of a float weight (fan_in, cout): the largest of a channel becomes 127."""
    return np.maximum(np.abs(weight).max(axis=0), np.float32(1e-12)) / np.float32(127)


def quantised(network: Network) -> Network:
    """`network` with int8 weights: those that are float32 are rounded."""
    weights, scales = list(network.weights), list(network.scales)
    for i, weight in enumerate(network.weights):
        if scales[i] is None:
            scales[i] = int8_scales(weight)
            weights[i] = np.rint(weight / scales[i]).astype(np.int8)
    return replace(network, weights=tuple(weights), scales=tuple(scales))
