"""Networks to pre-train: layers, and first weights that start every channel alive."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tinytrain.base.random_streams import rng_for
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node


def architecture(shape: tuple[int, int, int], stem: int, blocks) -> tuple[Node, ...]:
    """A stem and inverted bottlenecks for items of `shape`; the last projection gives the embedding.

    `blocks` are rows of (expansion or 0 for none, output channels, kernel, stride).
    """
    layers: list[Node] = []

    def add(name, op, cout, kernel, stride, block, added=None):
        activation = None if name.endswith(".project") else "relu6"
        cin, in_hw = (layers[-1].cout, layers[-1].out_hw) if layers else (shape[2], shape[:2])
        out_hw = ((in_hw[0] - 1) // stride + 1, (in_hw[1] - 1) // stride + 1)
        inputs = (layers[-1].name, added) if added else ()
        layers.append(Node(name, op, cin, cout, kernel, stride, in_hw, out_hw, activation, block, inputs))

    add("stem", "conv", stem, 3, 2, 0)
    for number, (expanded, cout, kernel, stride) in enumerate(blocks):
        name, block, read = f"block{number}", number + 1, layers[-1]
        if expanded:
            add(f"{name}.expand", "pointwise", expanded, 1, 1, block)
        add(f"{name}.depthwise", "depthwise", layers[-1].cout, kernel, stride, block)
        stays = (read.cout, 1) == (cout, stride)
        add(f"{name}.project", "pointwise", cout, 1, 1, block, read.name if stays else None)
    return tuple(layers)


def convolve(x: np.ndarray, layer: Node, weight: np.ndarray) -> np.ndarray:
    """Convolution of x (n, h, w, cin) without bias, in plain numpy."""
    if layer.op == "pointwise":
        return x @ weight
    pad, kernel, stride = layer.pad[0], layer.kernel[0], layer.stride[0]
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = sliding_window_view(x, (kernel, kernel), axis=(1, 2))  # n, h, w, cin, row, column
    windows = windows[:, ::stride, ::stride]
    if layer.op == "depthwise":
        return np.einsum("nhwcij,ijc->nhwc", windows, weight.reshape(kernel, kernel, layer.cout))
    rows = np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3))
    return rows.reshape(*rows.shape[:3], layer.fan_in) @ weight


def initial_weight(seed: int, layer: Node) -> np.ndarray:
    """Normal numbers; depthwise filters are a little of that around "leave it as it is"."""
    weight = rng_for(seed, "weights", layer.name).standard_normal((layer.fan_in, layer.cout), np.float32)
    if layer.op == "depthwise":
        weight *= np.float32(0.3)
        weight[layer.fan_in // 2] += 1
    return weight


def initial_network(
    seed: int, images: np.ndarray, layers: tuple[Node, ...], spreads, spec: InputSpec
) -> Network:
    """Random weights; every channel has mean 0 and variance 1 before its ReLU6 on `images` of `spec`.

    This does once what batch normalisation would do in the first step: all units start alive. The
    last layer of a residual block starts at half that size. `spreads` maps last layers of blocks to
    the mean and standard deviation (channels,) that the output of the block shall start with instead.
    """
    x = skip = (images.astype(np.float32) - np.float32(spec.mean)) * np.float32(spec.scale)
    weights, biases = [], []
    for i, layer in enumerate(layers):
        if i == 0 or layers[i - 1].block != layer.block:
            skip = x
        weight = initial_weight(seed, layer)
        y = convolve(x, layer, weight)
        mean, spread = spreads.get(i, (np.float32(0), np.float32(1)))
        if layer.adds and i in spreads:
            mean = mean - skip.mean(axis=(0, 1, 2))
        size = spread * np.float32(0.5 if layer.adds else 1) / (y.std(axis=(0, 1, 2)) + np.float32(1e-6))
        weights.append(weight * size)
        biases.append(mean - y.mean(axis=(0, 1, 2)) * size)
        x = y * size + biases[-1]
        x = np.clip(x, 0, 6) if layer.activation else x + skip if layer.adds else x
    return Network("untrained", layers, tuple(weights), (None,) * len(layers), tuple(biases), spec)
