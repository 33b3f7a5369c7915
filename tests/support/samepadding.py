"""Networks with TensorFlow's SAME padding, in float64 and plain numpy.

It pads as much as the windows need; if that is odd, there is one more at the end.
"""

from dataclasses import replace

import numpy as np

from tinytrain.network.network import Network


def turned(network) -> Network:
    """`network` with every kernel turned by 180 degrees."""
    weights = []
    for layer, weight in zip(network.layers, network.weights, strict=True):
        taps = weight.reshape(layer.fan_in * layer.groups // layer.cin, -1, layer.cout)
        weights.append(np.ascontiguousarray(taps[::-1]).reshape(weight.shape))
    return replace(network, weights=tuple(weights))


def same_padded(network, images) -> np.ndarray:
    """Embeddings (n, d) float64 of upright images."""
    spec = network.input
    x = (images - np.array(spec.mean)) * np.array(spec.scale)
    for i, layer in enumerate(network.layers):
        if i == network.block_start(i):
            skip = x
        kernel = network.float_weight(i).astype(float).reshape(*layer.kernel, -1, layer.cout)
        x = same_convolution(x, kernel, layer.stride[0], layer.op == "depthwise")
        x = x + network.bias(i) + (skip if layer.adds else 0)
        x = np.clip(x, 0, 6) if layer.activation == "relu6" else x
    return x.mean(axis=(1, 2))


def same_convolution(x, kernel, stride: int, depthwise: bool) -> np.ndarray:
    """x (n, height, width, cin) with `kernel` (rows, columns, cin, cout), or (rows, columns, 1, channels)."""
    n, *hw, _ = x.shape
    size = len(kernel)
    out = [-(-side // stride) for side in hw]
    needs = [max((o - 1) * stride + size - side, 0) for o, side in zip(out, hw, strict=True)]
    x = np.pad(x, [(0, 0), *((need // 2, need - need // 2) for need in needs), (0, 0)])
    y = np.empty((n, *out, kernel.shape[3]))
    for r, q in np.ndindex(*out):
        window = x[:, r * stride : r * stride + size, q * stride : q * stride + size]
        if depthwise:
            y[:, r, q] = (window * kernel[:, :, 0]).sum(axis=(1, 2))
        else:
            y[:, r, q] = np.tensordot(window, kernel, 3)
    return y
