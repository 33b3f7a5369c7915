"""How the outputs of layers become codes of 8 bits: what an int8 program needs beside int8 weights."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinytrain.network.node import sources_of

FACTOR_BITS = 31  # of the factor that a sum is multiplied with before it is shifted
SUM_BITS = 20  # of the factors of an addition: with them it fits 32 bits


@dataclass(frozen=True)
class Codes:
    """Codes q from -128 to 127 that stand for ``scale * (q - zero)``; 0 has a code of its own."""

    scale: float
    zero: int

    @property
    def is_valid(self) -> bool:
        whole = type(self.zero) is int and -128 <= self.zero <= 127
        return whole and type(self.scale) is float and 1e-12 < self.scale < 1e12


@dataclass(frozen=True)
class Quantisation:
    """Codes of what every layer gives, by its index.

    `outputs`: of its convolution with the activation. `sums`: of what the addition behind it gives, None for
    layers that add nothing.
    """

    outputs: tuple[Codes, ...]
    sums: tuple[Codes | None, ...]

    def given(self, layer: int) -> Codes:
        """Codes of what layer `layer` hands to the next one."""
        return self.sums[layer] or self.outputs[layer]


def factor_and_shift(ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int32 factors below 2**31 and shifts from 1 to 62, with ``factor / 2**shift`` nearest to `ratio` (n,).

    TensorFlow Lite and CMSIS-NN round so, with a single rounding: ``floor(x * factor / 2**shift + 1/2)``.
    """
    mantissa, exponent = np.frexp(np.asarray(ratio, np.float64))
    factor = np.rint(mantissa * 2.0**FACTOR_BITS).astype(np.int64)
    grown = factor == 2**FACTOR_BITS  # rounded up to the next power of two
    factor, exponent = np.where(grown, factor // 2, factor), exponent + grown
    shift = FACTOR_BITS - exponent
    lost = np.maximum(shift - 62, 0)  # ratios too small for the shift: fewer bits of the factor
    return (factor >> np.minimum(lost, 62)).astype(np.int32), np.clip(shift, 1, 62).astype(np.int32)


def addition_factors(first: float, second: float) -> tuple[int, int, int]:
    """Whole factors of two ratios of scales, and the shift that they have in common: for `add_codes`."""
    shift = SUM_BITS - math.frexp(max(first, second))[1]
    shift = max(1, min(shift, 30))
    return round(first * 2**shift), round(second * 2**shift), shift


MOST_BIAS = 2**28  # units of a sum that a bias may take
MOST_RATIO, LEAST_RATIO = 2**16, 2**-31  # of the scale of a sum to that of an output code
MOST_INPUTS = 2**15  # of an output channel: with more, a sum may leave 32 bits
RELU6_TOP = 6 * (1 + 1e-6)


def obstacles_of(nodes) -> Iterator[str | None]:
    """Why int8 programs cannot run each of `nodes`, in order; None for those that they can run."""
    for index, (node, read) in enumerate(zip(nodes, sources_of(nodes), strict=True)):
        wrong = {
            f"is of the operation {node.op}": not node.row.in_int8,
            "has filters that are not square, or not padded by (kernel - 1) // 2": node.is_layer
            and not node.is_usual,
            "reads another layer than the one before it": read[0] != index - 1,
            f"has the activation {node.activation}": node.activation not in (None, "relu", "relu6"),
            "has an activation behind a sum": node.adds and node.activation is not None,
            f"has more than {MOST_INPUTS:,} weights per channel": node.fan_in > MOST_INPUTS,
        }
        yield next((reason for reason, found in wrong.items() if found), None)


def nodes_obstacle(nodes) -> str | None:
    """The first of `nodes` that int8 programs cannot run, with the reason; None if they can run all."""
    rows = zip(nodes, obstacles_of(nodes), strict=True)
    return next((f"layer {node.name} {reason}" for node, reason in rows if reason), None)


def input_obstacle(spec) -> str | None:
    """Why int8 programs cannot take what `spec`, an InputSpec, describes; None if they can."""
    return None if spec.dtype == "uint8" else f"it takes {spec.dtype} values, and int8 programs take uint8"


def int8_obstacle(network) -> str | None:
    """Why `network`, a Network, cannot run as an int8 program; None if it can."""
    if obstacle := nodes_obstacle(network.nodes) or input_obstacle(network.input):
        return obstacle
    if network.added:
        return "it has lite residual modules"
    for layer, scale in zip(network.layers, network.scales, strict=True):
        if scale is None:
            return f"layer {layer.name} has float32 weights"
    if network.quantisation is None:
        return "it has no codes of its layers' outputs; make them with: tinytrain calibrate"
    for index, layer in enumerate(network.layers):
        if int8_ratios(network, index, int8_weights(network, index)[1]).max() > MOST_RATIO:
            return f"layer {layer.name} has codes whose scales are too far apart"
    return None


def given_scale(network, layer: int) -> float:
    """What one code that layer `layer` reads stands for."""
    if layer == 0:
        return input_codes(network.input.mean, network.input.scale)[1]
    return network.quantisation.given(layer - 1).scale


def int8_ratios(network, layer: int, scales: np.ndarray) -> np.ndarray:
    """(cout,) float64: output codes in one unit of a sum of layer `layer`, by its weights' `scales`."""
    return scales.astype(np.float64) * (
        given_scale(network, layer) / network.quantisation.outputs[layer].scale
    )


def int8_weights(network, layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (fan_in, cout) int8 of layer `layer`, their scales (cout,) float32, and dead channels (cout,).

    `network` has int8 weights and codes. A channel is dead if the units of its sums are so small that its
    bias takes more than `MOST_BIAS` of them, or that one is less than `LEAST_RATIO` of an output code. It
    gets the smallest scale that is large enough, and its weights are rounded to that, mostly to 0.
    """
    weights, scales = network.weights[layer], network.scales[layer]
    given, out = given_scale(network, layer), network.quantisation.outputs[layer].scale
    least = np.abs(network.biases[layer].astype(np.float64)) / MOST_BIAS / given
    least = np.maximum(least, LEAST_RATIO * out / given)
    raised = np.nextafter(least.astype(np.float32), np.float32(np.inf))
    dead = scales < least
    scales = np.where(dead, raised, scales)
    codes = weights.copy()
    shrunk = weights[:, dead] * (network.scales[layer][dead].astype(np.float64) / scales[dead])
    codes[:, dead] = np.rint(shrunk).astype(np.int8)
    return codes, scales, dead


INPUT_RANGE = 2047  # largest code of a pixel, unless the values are exact multiples of a step


def input_codes(mean: tuple[float, ...], scale: tuple[float, ...]) -> tuple[np.ndarray, float]:
    """(256, c) int16 codes of pixel values, 0 for the value 0, and the step that one code stands for.

    A pixel v means ``(v - mean) * scale``. If the mean of every channel is a multiple of 1/2 and all scales
    are the same, the codes are exact.
    """
    pixels = np.arange(256)[:, None]
    means, scales = np.array(mean), np.array(scale)
    doubled = 2 * (pixels - means)
    if len(set(scale)) == 1 and np.array_equal(doubled, np.rint(doubled)):
        return doubled.astype(np.int16), float(scales[0] / 2)
    values = (pixels - means) * scales
    step = float(np.abs(values).max() / INPUT_RANGE)
    return np.rint(values / step).astype(np.int16), step
