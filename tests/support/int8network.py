"""The forward pass of a whole network in int8, kernel by kernel, with any table of kernels."""

import numpy as np

from tinytrain.network.network import Network
from tinytrain.network.quantisation import (
    addition_factors,
    factor_and_shift,
    given_scale,
    input_codes,
    int8_ratios,
    int8_weights,
)


class Int8Network:
    """`network`, which has int8 weights and codes, ready to run with the int8 kernels of a table."""

    def __init__(self, network: Network, kernels):
        self.network, self.kernels, self.codes = network, kernels, network.quantisation
        self.table, _ = input_codes(network.input.mean, network.input.scale)
        self.parts = [self._part(i) for i in range(len(network.layers))]

    def _part(self, i: int) -> tuple[np.ndarray, ...]:
        """Weights as the kernels take them, int32 biases, factors, shifts."""
        weights, scales, _ = int8_weights(self.network, i)
        turned = self.network.layers[i].kind != "depthwise"
        weights = np.ascontiguousarray(weights.T) if turned else weights
        unit = scales.astype(np.float64) * given_scale(self.network, i)
        bias = np.rint(self.network.biases[i] / unit).astype(np.int32)
        bias -= np.int32(self._given_zero(i)) * weights.sum(axis=1 if turned else 0, dtype=np.int32)
        return weights, bias, *factor_and_shift(int8_ratios(self.network, i, scales))

    def _given_zero(self, i: int) -> int:
        return self.codes.given(i - 1).zero if i else 0

    def layer(self, i: int, x: np.ndarray, skip: np.ndarray | None = None) -> np.ndarray:
        """int8 codes (n, h, w, cout) that layer `i` hands on.

        `x` (n, h, w, cin) is what it reads, images for the first layer; `skip` what its
        block read, if it adds.
        """
        layer, (w, b, factor, shift) = self.network.layers[i], self.parts[i]
        zero = self.codes.outputs[i].zero
        y = np.empty((len(x), *layer.out_hw, layer.cout), np.int8)
        rows = y.reshape(-1, layer.cout)
        if layer.kind == "depthwise":
            shape = layer.kernel, layer.stride, layer.pad
            self.kernels.depthwise_codes(y, x, w, b, factor, shift, *shape, self._given_zero(i), zero)
        elif i == 0:
            patches = np.empty((len(x), *layer.out_hw, layer.fan_in), np.int16)
            for image, patch in zip(x, patches, strict=True):
                self.kernels.unfold_codes(
                    patch, image, self.table, layer.kernel, layer.stride, 0, self.network.input.rotated
                )
            flat = patches.reshape(-1, layer.fan_in)
            self.kernels.product_wide(rows, flat, w, b, factor, shift, zero)
        else:
            self.kernels.product_codes(rows, x.reshape(-1, layer.cin), w, b, factor, shift, zero)
        return self._added(i, y, skip) if layer.residual else y

    def _added(self, i: int, y: np.ndarray, skip: np.ndarray) -> np.ndarray:
        out, total = self.codes.outputs[i], self.codes.sums[i]
        block = self.codes.given(self.network.block_start(i) - 1)
        factors = addition_factors(out.scale / total.scale, block.scale / total.scale)
        handed = np.empty_like(y)
        flat = (array.reshape(-1) for array in (handed, y, skip))
        self.kernels.add_codes(*flat, *factors, out.zero, block.zero, total.zero)
        return handed

    def run(self, x: np.ndarray, first: int = 0, last: int | None = None) -> list[np.ndarray]:
        """What each layer from `first`, the start of a block, to `last` hands on."""
        handed, skip = [], x
        for i in range(first, len(self.parts) if last is None else last + 1):
            if i == self.network.block_start(i):
                skip = x
            x = self.layer(i, x, skip)
            handed.append(x)
        return handed

    def embeddings(self, last: np.ndarray) -> np.ndarray:
        """Embeddings (n, cout) float32 of what the last layer hands on."""
        codes, pixels = self.codes.given(len(self.parts) - 1), last.reshape(len(last), -1, last.shape[3])
        out = np.empty((len(last), last.shape[3]), np.float32)
        self.kernels.pool_codes(out, pixels, np.float32(codes.scale / pixels.shape[1]), codes.zero)
        return out
