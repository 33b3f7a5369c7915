"""A whole network in int8, slowly, in whole numbers of numpy and Python: an oracle without kernels.

`Integers` follows the meaning of codes: a code q stands for ``scale * (q - zero)``, sums are whole, and a sum
becomes the code nearest to it, halves up, by a factor of 31 bits. `Published` has the arithmetic of the code
that the published checkpoints were made with (Lin et al., NeurIPS 2022): a float32 factor, halves to even.
"""

import math

import numpy as np

from tinytrain.network.network import Network
from tinytrain.network.quantisation import int8_weights


def pixel_codes(spec, image: np.ndarray) -> tuple[np.ndarray, float]:
    """int64 codes of an image (h, w, c) uint8, and what one of them stands for."""
    if spec.rotated:
        image = image[::-1, ::-1]
    values = image.astype(np.int64)
    if len(set(spec.scale)) == 1 and all(float(2 * mean).is_integer() for mean in spec.mean):
        return 2 * values - np.array([int(2 * mean) for mean in spec.mean]), spec.scale[0] / 2
    ends = [abs((v - m) * s) for v in (0, 255) for m, s in zip(spec.mean, spec.scale, strict=True)]
    step = max(ends) / 2047
    return np.rint((values - np.array(spec.mean)) * np.array(spec.scale) / step).astype(np.int64), step


def sums_of(x: np.ndarray, layer, weights: np.ndarray) -> np.ndarray:
    """int64 sums (h, w, cout) of a convolution over x (h, w, cin), without bias; outside of x lie 0s."""
    (height, width), side, size, stride = layer.out_hw, layer.pad[0], layer.kernel[0], layer.stride[0]
    padded = np.pad(x, ((side, side), (side, side), (0, 0)))
    sums = np.zeros((height, width, layer.cout), np.int64)
    for row in range(size):
        for column in range(size):
            seen = padded[row::stride, column::stride][:height, :width]
            tap = row * size + column
            if layer.op == "depthwise":
                sums += seen * weights[tap].astype(np.int64)
            else:
                sums += seen @ weights[tap * layer.cin : (tap + 1) * layer.cin].astype(np.int64)
    return sums


def clamped(codes: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(codes, -128), 127)


class Integers:
    """`network` in whole numbers; it has int8 weights and codes."""

    def __init__(self, network: Network):
        self.network, self.codes = network, network.quantisation
        step = pixel_codes(network.input, np.zeros(network.input.shape, np.uint8))[1]
        self.parts = []
        for i, out in enumerate(self.codes.outputs):
            weights, scales, _ = int8_weights(network, i)
            given = self.codes.given(i - 1).scale if i else step
            bias = [
                round(float(b) / (float(s) * given)) for b, s in zip(network.biases[i], scales, strict=True)
            ]
            factors = [self._factor(float(s) * given / out.scale) for s in scales]
            self.parts.append((weights, np.array(bias), *map(np.array, zip(*factors, strict=True))))

    @staticmethod
    def _factor(ratio: float) -> tuple[int, int]:
        mantissa, exponent = math.frexp(ratio)
        factor = round(mantissa * 2**31)
        return (factor, 31 - exponent) if factor < 2**31 else (factor // 2, 30 - exponent)

    def convolved(self, i: int, x: np.ndarray, zero: int) -> np.ndarray:
        """Codes that the convolution of layer `i` gives for codes x (h, w, cin); `zero` is that of 0."""
        weights, bias, factor, shift = self.parts[i]
        sums = sums_of(x - zero, self.network.layers[i], weights) + bias
        assert np.abs(sums).max() < 2**31, "a sum leaves int32"
        return clamped(((sums * factor + 2 ** (shift - 1)) >> shift) + self.codes.outputs[i].zero)

    def added(self, i: int, x: np.ndarray, skip: np.ndarray, skip_codes) -> np.ndarray:
        out, total = self.codes.outputs[i], self.codes.sums[i]
        ratios = out.scale / total.scale, skip_codes.scale / total.scale
        shift = min(max(20 - math.frexp(max(ratios))[1], 1), 30)
        first, second = (round(ratio * 2**shift) for ratio in ratios)
        sums = (x - out.zero) * first + (skip - skip_codes.zero) * second
        return clamped(((sums + 2 ** (shift - 1)) >> shift) + total.zero)

    def pixels(self, image: np.ndarray) -> np.ndarray:
        return pixel_codes(self.network.input, image)[0]

    def run(self, x: np.ndarray, first: int = 0, last: int | None = None) -> list[np.ndarray]:
        """What each layer from `first`, the start of a block, to `last` hands on; `first` reads `x`."""
        layers, handed = self.network.layers, []
        for i in range(first, len(layers) if last is None else last + 1):
            if i == first or layers[i].block != layers[i - 1].block:
                skip, skip_codes = x, self.codes.given(i - 1) if i else None
            y = self.convolved(i, x, self.codes.given(i - 1).zero if i else 0)
            x = self.added(i, y, skip, skip_codes) if layers[i].adds else y
            handed.append(x)
        return handed

    def embedding(self, last: np.ndarray) -> np.ndarray:
        """float32 mean of the values of codes (h, w, c)."""
        codes, count = self.codes.given(-1), last.shape[0] * last.shape[1]
        sums = (last - codes.zero).sum(axis=(0, 1))
        return np.float32(codes.scale / count) * sums.astype(np.float32)


class Published(Integers):
    """The arithmetic of the published training code, in float32, on the weights as they are stored."""

    def __init__(self, network: Network):
        super().__init__(network)
        self.x_scales = [1 / 127.5, *(self.codes.given(i).scale for i in range(len(self.codes.outputs) - 1))]

    def convolved(self, i: int, x: np.ndarray, zero: int) -> np.ndarray:
        network, out, given = self.network, self.codes.outputs[i], self.x_scales[i]
        scales = network.scales[i].astype(np.float64)
        bias = np.rint(network.biases[i] / (scales * given)).astype(np.float32)
        sums = sums_of(x - zero, network.layers[i], network.weights[i]).astype(np.float32)
        return clamped(
            np.rint((sums + bias) * (scales * given / out.scale).astype(np.float32)) + out.zero
        ).astype(np.int64)

    def added(self, i: int, x: np.ndarray, skip: np.ndarray, skip_codes) -> np.ndarray:
        out, total = self.codes.outputs[i], self.codes.sums[i]
        values = (x - out.zero).astype(np.float32) * np.float32(out.scale)
        values += (skip - skip_codes.zero).astype(np.float32) * np.float32(skip_codes.scale)
        return clamped(np.rint(values / np.float32(total.scale)) + total.zero).astype(np.int64)

    def pixels(self, image: np.ndarray) -> np.ndarray:
        """Whole codes of 1 / 127.5: halves go to even ones."""
        return np.rint(image - 127.5).astype(np.int64)
