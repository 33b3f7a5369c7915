"""Float weights as int8: symmetric, with one scale per output channel."""

from dataclasses import replace

import numpy as np

from tinytrain.network.network import Network


def int8_scales(weight: np.ndarray) -> np.ndarray:
    """Steps (cout,) float32 of a float weight (fan_in, cout): the largest of a channel becomes 127."""
    return np.maximum(np.abs(weight).max(axis=0), np.float32(1e-12)) / np.float32(127)


def quantised(network: Network) -> Network:
    """`network`, whose weights are float32, with int8 weights."""
    scales = tuple(int8_scales(w) for w in network.weights)
    weights = (np.rint(w / s).astype(np.int8) for w, s in zip(network.weights, scales, strict=True))
    return replace(network, weights=tuple(weights), scales=scales)
