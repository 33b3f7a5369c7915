"""The reference kernels of int8 programs, put together to the forward pass of a whole network."""

import numpy as np

from tinytrain.kernels import reference_int8 as kernels
from tinytrain.network.network import Network
from tinytrain.network.quantisation import (
    addition_factors,
    factor_and_shift,
    given_scale,
    input_codes,
    int8_ratios,
    int8_weights,
)


def layer_codes(network: Network, i: int, x: np.ndarray, skip: np.ndarray | None = None) -> np.ndarray:
    """int8 codes (n, h, w, cout) that layer `i` hands on.

    `x` (n, h, w, cin) is what it reads, images for the first layer; `skip` what its block read, if it adds.
    """
    layer, codes = network.layers[i], network.quantisation
    weights, scales, _ = int8_weights(network, i)
    factor, shift = factor_and_shift(int8_ratios(network, i, scales))
    unit = scales.astype(np.float64) * given_scale(network, i)
    given, out = codes.given(i - 1) if i else None, codes.outputs[i]
    y = np.empty((len(x), *layer.out_hw, layer.cout), np.int8)
    turned = layer.kind != "depthwise"
    w, b = np.ascontiguousarray(weights.T) if turned else weights, np.empty(layer.cout, np.int32)
    kernels.fold_bias(b, network.biases[i].astype(np.float64), unit, w, given.zero if given else 0, turned)
    if layer.kind == "depthwise":
        size = layer.kernel, layer.stride, layer.pad
        kernels.depthwise_codes(y, x, w, b, factor, shift, *size, given.zero, out.zero)
    elif i == 0:
        table, _ = input_codes(network.input.mean, network.input.scale)
        patches = np.empty((*layer.out_hw, layer.fan_in), np.int16)
        for picture, row in zip(x, y, strict=True):
            kernels.unfold_codes(
                patches, picture, table, layer.kernel, layer.stride, 0, network.input.rotated
            )
            flat = patches.reshape(-1, layer.fan_in), row.reshape(-1, layer.cout)
            kernels.product_wide(flat[1], flat[0], w, b, factor, shift, out.zero)
    else:
        flat = x.reshape(-1, layer.cin), y.reshape(-1, layer.cout)
        kernels.product_codes(flat[1], flat[0], w, b, factor, shift, out.zero)
    if not layer.residual:
        return y
    total, block = codes.sums[i], codes.given(network.block_start(i) - 1)
    factors = addition_factors(out.scale / total.scale, block.scale / total.scale)
    handed = np.empty_like(y)
    kernels.add_codes(handed, y, skip, *factors, out.zero, block.zero, total.zero)
    return handed


def run(network: Network, x: np.ndarray, first: int = 0, last: int | None = None) -> list[np.ndarray]:
    """What each layer from `first`, the start of a block, to `last` hands on."""
    handed, skip = [], x
    for i in range(first, len(network.layers) if last is None else last + 1):
        if i == network.block_start(i):
            skip = x
        x = layer_codes(network, i, x, skip)
        handed.append(x)
    return handed


def embeddings(network: Network, last: np.ndarray) -> np.ndarray:
    """Embeddings (n, cout) float32 of what the last layer hands on."""
    codes, pixels = (
        network.quantisation.given(len(network.layers) - 1),
        last.reshape(len(last), -1, last.shape[3]),
    )
    out = np.empty((len(last), last.shape[3]), np.float32)
    kernels.pool_codes(out, pixels, np.float32(codes.scale / pixels.shape[1]), codes.zero)
    return out
