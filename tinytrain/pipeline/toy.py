"""A toy network with one layer of every kind and a toy episode: what `warmup` and the tests run on."""

from functools import lru_cache

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.episode import sides
from tinytrain.episode.episode import Episode, Images
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node

SIZE = 16

# Blocks after the stem: (expanded channels or None, depthwise kernel, stride, output channels, residual).
BLOCKS = ((None, 3, 1, 8, False), (16, 5, 2, 8, False), (24, 7, 1, 8, True), (24, 3, 2, 12, False))


def toy_network(seed: int = 0, name: str = "toy") -> Network:
    """A random int8 network: dense stem, then blocks of pointwise, depthwise (3, 5, 7) and pointwise."""
    layers = _layers()
    rng = rng_for(seed, "toy network")
    weights = [rng.integers(-127, 128, (layer.fan_in, layer.cout), dtype=np.int8) for layer in layers]
    # A uniform int8 weight has deviation 73; this gain keeps activations about their size.
    scales = [np.full(layer.cout, np.sqrt(2 / layer.fan_in) / 73, np.float32) for layer in layers]
    biases = [rng.normal(0, 0.1, layer.cout).astype(np.float32) for layer in layers]
    return Network(name, layers, tuple(weights), tuple(scales), tuple(biases), InputSpec((SIZE, SIZE, 3)))


def _layers() -> tuple[Node, ...]:
    side, channels = SIZE // 2, 8
    layers = [Node("stem", "conv", 3, channels, 3, 2, (SIZE,) * 2, (side,) * 2, "relu6", 0)]
    for block, (expanded, kernel, stride, cout, residual) in enumerate(BLOCKS, 1):
        at, mid, name, before = (side, side), expanded or channels, f"block{block}", layers[-1].name
        if expanded:
            layers.append(Node(f"{name}.expand", "pointwise", channels, mid, 1, 1, at, at, "relu6", block))
        side //= stride
        to = (side, side)
        filtered = f"{name}.depthwise"
        layers.append(Node(filtered, "depthwise", mid, mid, kernel, stride, at, to, "relu6", block))
        inputs = (filtered, before) if residual else ()
        layers.append(Node(f"{name}.project", "pointwise", mid, cout, 1, 1, to, to, None, block, inputs))
        channels = cout
    return tuple(layers)


def toy_images(labels, seed: int = 0) -> Images:
    """Noisy stripes; each class has a direction, a pitch and a colour of its own."""
    labels = np.asarray(labels, np.int32)
    names = tuple(f"toy/{seed}/{i}" for i in range(len(labels)))
    return Images(labels, names, lambda i, size: _toy_image(int(labels[i]), i, seed, sides(size)))


@lru_cache(maxsize=2048)  # trainers read each image many times
def _toy_image(label: int, number: int, seed: int, extent: tuple[int, int]) -> np.ndarray:
    look, rng = rng_for(0, "toy class", label), rng_for(seed, "toy picture", number)
    colour, angle, pitch = look.uniform(40, 215, 3), look.uniform(0, np.pi), look.uniform(0.5, 1.5)
    y, x = np.mgrid[: extent[0], : extent[1]]
    wave = np.sin((np.cos(angle) * x + np.sin(angle) * y) * pitch + rng.uniform(0, 2 * np.pi))
    return np.clip(colour + 40 * wave[..., None] + rng.normal(0, 12, (*extent, 3)), 0, 255).astype(np.uint8)


def toy_episode(way: int = 3, shots: int = 4, queries: int = 4, seed: int = 0) -> Episode:
    """An easy episode of `way` classes."""
    classes = np.arange(way)
    return Episode(
        support=toy_images(np.repeat(classes, shots), seed),
        query=toy_images(np.repeat(classes, queries), seed + 1000),
        class_names=tuple(f"toy {c}" for c in classes),
        source=f"toy: {way}-way {shots}-shot, seed {seed}",
    )
