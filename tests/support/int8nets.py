"""Toy networks in int8: their codes, passes of single segments, and gradients in float64."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from integernet import Integers, pixel_codes
from oracle import Oracle, convolve, convolve_gradients
from toynets import images_of, toy
from toysegments import backward_segment, forward_segment

from tinytrain.network.network import quantised
from tinytrain.network.quantisation import Codes, Quantisation
from tinytrain.program.backends.registry import INT8

forward8 = partial(forward_segment, backend=INT8)
backward8 = partial(backward_segment, backend=INT8)


def codes_for(values: np.ndarray, share: float = 0.9) -> Codes:
    """Codes of the smallest range that has 0 and `share` of the values: some are clamped."""
    tail = (1 - share) / 2
    low, high = (float(np.quantile(values, q)) for q in (tail, 1 - tail))
    low, high = min(low, 0.0), max(high, 1e-3)
    scale = (high - low) / 255
    return Codes(scale, int(np.clip(round(-128 - low / scale), -128, 127)))


def toy8(name: str = "blocks", size: int = 16, spec=None):
    """A toy network with int8 weights and codes, some of whose outputs are clamped at both ends."""
    network = quantised(toy(name, size, spec=spec))
    run = Oracle(network).forward(images_of(network.input.shape, 8))
    outputs, sums = [], []
    for layer, plain, active in zip(network.layers, run.plain, run.active, strict=True):
        outputs.append(Codes(6 / 255, -128) if layer.activation == "relu6" else codes_for(plain))
        sums.append(codes_for(active) if layer.adds else None)
    return replace(network, quantisation=Quantisation(tuple(outputs), tuple(sums)))


@dataclass
class Walk:
    """Per layer the values that it reads, and where its convolution and its sum are not clamped."""

    inputs: list
    inside: list
    inside_sum: list
    output: np.ndarray


def walk(network, images: np.ndarray) -> Walk:
    """Forward pass in whole numbers, layer by layer, as values in float64."""
    codes, integers = network.quantisation, Integers(network)
    found = Walk([], [], [], None)
    pixels = np.stack([integers.pixels(image) for image in images])
    _, step = pixel_codes(network.input, images[0])
    handed, value = pixels, pixels * step
    for i, layer in enumerate(network.layers):
        if i == network.block_start(i):
            skip, skip_codes = handed, codes.given(i - 1) if i else None
        found.inputs.append(value)
        zero = codes.given(i - 1).zero if i else 0
        plain = np.stack([integers.convolved(i, x, zero) for x in handed])
        found.inside.append((plain > -128) & (plain < 127))
        handed = plain
        if layer.adds:
            pairs = zip(plain, skip, strict=True)
            handed = np.stack([integers.added(i, x, s, skip_codes) for x, s in pairs])
        found.inside_sum.append((handed > -128) & (handed < 127) if layer.adds else None)
        given = codes.given(i)
        value = given.scale * (handed - given.zero)
    found.output = value
    return found


def gradients8(network, seen: Walk, grad_embeddings: np.ndarray) -> tuple[list, list]:
    """Gradients of weights and biases by layer, in float64: a clamped code has none."""
    layers, oracle = network.layers, Oracle(network)
    height, width = layers[-1].out_hw
    shape = (len(grad_embeddings), height, width, layers[-1].cout)
    g = np.broadcast_to(grad_embeddings[:, None, None] / (height * width), shape)
    weights, biases, skips = [None] * len(layers), [None] * len(layers), {}
    for i in range(len(layers) - 1, -1, -1):
        if layers[i].adds:
            g = g * seen.inside_sum[i]
            skips[network.block_start(i)] = g
        g = g * seen.inside[i]
        biases[i] = g.sum(axis=(0, 1, 2))
        g, weights[i] = convolve_gradients(layers[i], seen.inputs[i], oracle.weights[i], g)
        g = g + skips.get(i, 0)
    return weights, biases


def surrogate(network, seen: Walk, weights: list, biases: list, grad_embeddings: np.ndarray) -> float:
    """Sum of embeddings times `grad_embeddings` of the network that is linear around a walk.

    A clamped code stays; any other follows its convolution. At the network's own weights it is the walk.
    """
    own, x = Oracle(network), None
    for i, layer in enumerate(network.layers):
        before = seen.inputs[i]
        x = before if x is None else x
        if i == network.block_start(i):
            skip, skip_before = x, before
        moved = convolve(layer, x, weights[i]) + biases[i]
        moved = (moved - convolve(layer, before, own.weights[i]) - own.biases[i]) * seen.inside[i]
        if layer.adds:
            moved = (moved + skip - skip_before) * seen.inside_sum[i]
        after = seen.inputs[i + 1] if i + 1 < len(network.layers) else seen.output
        x = after + moved
    return float((x.mean(axis=(1, 2)) * grad_embeddings).sum())
