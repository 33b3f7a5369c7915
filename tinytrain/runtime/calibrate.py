"""The codes of a network's layers, by the values that its layers give for images.

Images are run one at a time in float32, twice: first for the ranges, then for a histogram of each. A range is
cut where the error of rounding and cutting together is smallest (mean square), so that a rare value does not
make all others coarse.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.errors import InputError
from tinytrain.episode.episode import Images
from tinytrain.network.network import Network
from tinytrain.network.quantisation import Codes, Quantisation, input_obstacle, nodes_obstacle

BINS = 2048
KEPT = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)  # of a range, that are tried as its ends
STEPS = 255
SIX = 6.0
CLEARLY = 0.95  # of 6: ReLU6 keeps its own range unless it needs less
EMPTY = 1e-3  # the range of a layer that gives nothing but 0


def calibrated_network(
    network: Network,
    images: Images,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Network:
    """`network` with codes that fit what its layers give for `images`; nothing else of it changes.

    ``progress(done, total)`` counts images. Raises InputError ``unsupported`` if a layer cannot run in int8,
    ``too-few-images`` without images.
    """
    if obstacle := nodes_obstacle(network.nodes) or input_obstacle(network.input):
        raise InputError("unsupported", f"{network.name}: {obstacle}; int8 programs cannot run it")
    if not len(images):
        raise InputError("too-few-images", "there are no images to calibrate with; give at least one")
    passes, total, done = FloatPass(network), 2 * len(images), 0
    ranges, histograms = {}, {}
    for measure in (_widen, _count):
        for i in range(len(images)):
            for key, values in passes.run(images.image(i, network.input)):
                measure(ranges, histograms, key, values)
            done += 1
            progress(done, total)
    found = {key: _codes(network, key, ranges[key], histograms[key]) for key in ranges}
    rows = range(len(network.layers))
    return replace(
        network,
        quantisation=Quantisation(
            tuple(found[i, "output"] for i in rows), tuple(found.get((i, "sum")) for i in rows)
        ),
    )


class FloatPass:
    """The float32 forward pass of one image, layer by layer."""

    def __init__(self, network: Network):
        self.network, self.kernels = network, kernel_table.load("auto")

    def run(self, image: np.ndarray) -> Iterator[tuple[tuple[int, str], np.ndarray]]:
        """((layer, "output" or "sum"), values) of every layer, in order."""
        made = {-1: image}
        for i, (layer, sources) in enumerate(zip(self.network.nodes, self.network.sources, strict=True)):
            made[i] = self._convolved(i, layer, made[sources[0]])
            yield (i, "output"), made[i]
            if layer.adds:
                made[i] = made[i] + made[sources[1]]
                yield (i, "sum"), made[i]

    def _convolved(self, i: int, layer, x: np.ndarray) -> np.ndarray:
        # A copy: kernels are compiled once, for arrays that can be written to.
        weight, bias = self.network.float_weight(i), self.network.bias(i).copy()
        y = np.empty((*layer.out_hw, layer.cout), np.float32)
        if layer.op == "depthwise":
            shape = layer.kernel[0], layer.stride[0], layer.pad[0]
            self.kernels.depthwise_forward(y[None], x[None], weight, bias, *shape, False)
        else:
            rows = x if layer.op == "pointwise" else self._patches(i, layer, x)
            self.kernels.matmul(y.reshape(-1, layer.cout), rows.reshape(-1, layer.fan_in), weight)
            y += bias
        if layer.activation:
            np.clip(y, 0, SIX if layer.activation == "relu6" else None, out=y)
        return y

    def _patches(self, i: int, layer, x: np.ndarray) -> np.ndarray:
        """What a dense convolution reads for each of its outputs."""
        if not i:
            spec, image, x = self.network.input, x, np.empty(x.shape, np.float32)
            self.kernels.enter(x, image, 0, 0, spec.rotated, *spec.of_row)
        patches = np.empty((*layer.out_hw, layer.fan_in), np.float32)
        how = *layer.kernel, layer.stride[0], *layer.pad, 0, layer.out_hw[0]
        self.kernels.unfold_plane(patches, x[None], *how)
        return patches


def _widen(ranges: dict, histograms: dict, key, values: np.ndarray) -> None:
    low, high = ranges.get(key, (0.0, 0.0))  # 0 has a code of its own
    ranges[key] = min(low, float(values.min())), max(high, float(values.max()))


def _count(ranges: dict, histograms: dict, key, values: np.ndarray) -> None:
    low, high = ranges[key]
    counted = np.histogram(values, BINS, (low, high if high > low else low + EMPTY))[0]
    histograms[key] = histograms.get(key, 0) + counted


def _codes(network: Network, key, span: tuple[float, float], histogram: np.ndarray) -> Codes:
    layer, low, high = network.layers[key[0]], *span
    if high - low < EMPTY:
        low, high = min(low, 0.0), max(high, low + EMPTY)
    low, high = best_ends(low, high, histogram)
    if key[1] == "output" and layer.activation:
        top = SIX if layer.activation == "relu6" and high > CLEARLY * SIX else high
        return Codes(float(top / STEPS), -128)
    scale = float((high - low) / STEPS)
    return Codes(scale, int(np.clip(round(-128 - low / scale), -128, 127)))


def best_ends(low: float, high: float, histogram: np.ndarray) -> tuple[float, float]:
    """The ends, on both sides of 0 or on it, with the least mean square error of codes between them."""
    middles = low + (np.arange(len(histogram)) + 0.5) * (high - low) / len(histogram)

    def error(ends: tuple[float, float]) -> float:
        cut = np.maximum(ends[0] - middles, 0) + np.maximum(middles - ends[1], 0)
        rounding = ((ends[1] - ends[0]) / STEPS) ** 2 / 12
        return float((histogram * (cut * cut + rounding * (cut == 0))).sum())

    lows = (0.0,) if low == 0 else tuple(low * part for part in KEPT)
    highs = (0.0,) if high == 0 else tuple(high * part for part in KEPT)
    return min(((a, b) for a in lows for b in highs), key=error)
