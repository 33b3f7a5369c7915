"""Toy networks in int8: their codes, passes of single segments, and gradients in float64."""

from dataclasses import dataclass, replace

import numpy as np
from integernet import Integers, pixel_codes
from oracle import Oracle, convolve, convolve_gradients
from toynets import images_of, recipe, toy
from toysegments import bound

from tinytrain.network.network import quantised
from tinytrain.network.quantisation import Codes, Quantisation
from tinytrain.plan.costs import cut_layer, n_trained
from tinytrain.program.autodiff.int8_emitter import Int8Emitter
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.backends.registry import INT8
from tinytrain.program.calls import Buffer, Segment
from tinytrain.program.trained_arrays import trained_parts


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


def forward8(network, first: int, last: int, n: int, row_tile: int | None = None):
    """(segment, its input buffer) of a forward pass in int8 that saves nothing."""
    layer = network.layers[first]
    source = Buffer("source", (n, *layer.in_hw, layer.cin), "uint8" if first == 0 else "int8")
    segment = Segment("forward", n, external={source}, backend=INT8)
    segment.outputs = (Int8Emitter(segment, network, row_tile).forward(source.whole, first, last),)
    return segment.finish(keep=segment.outputs), source


def backward8(network, updates, first: int, n: int, row_tile: int | None = None, hook=None):
    """(segment, buffers: source, gradient of the embedding, gradients of the trained numbers)."""
    layer = network.layers[first]
    source = Buffer("source", (n, *layer.in_hw, layer.cin), "uint8" if first == 0 else "int8")
    g = Buffer("grad embedding", (n, network.embedding_size))
    gradients = Buffer("gradients", (n_trained(network, updates),))
    segment = Segment("backward", n, external={source, g, gradients}, backend=INT8)
    emitter = Int8Emitter(segment, network, row_tile)
    parts = trained_parts(network, recipe(updates), gradients)
    tape = Tape(cut_layer(network, updates), parts)
    emitter.forward(source.whole, first, len(network.layers), tape)
    emitter.backward(emitter.pool_grad(g.whole), first, len(network.layers), tape, hook)
    return segment.finish(), source, g, gradients


def run8(segment, network, arrays, updates=()):
    """Run the calls of an int8 segment; its outputs."""
    calls, outputs, _ = bound(segment, network, arrays, updates)
    for kernel, args in calls:
        kernel(*args)
    return outputs


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
