"""Trains the small backbone that ships until the offline stage delivers a real one. A placeholder.

A network of 0.12 M weights, from random initialisation, on generated pictures alone, with the
engine of the device: episodes, cosine prototypes, the gradient through support and queries. Run
``python -m tinytrain.meta.placeholder``; the same arguments on the same machine give the same bytes.
"""

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tinytrain import kernels as kernel_table
from tinytrain.arena import Arena
from tinytrain.augment import draw
from tinytrain.blas import one_thread
from tinytrain.compile import compile_training
from tinytrain.datasets.signs import generate
from tinytrain.engine import Trainer, WorkingCopy
from tinytrain.modelfile import save_network
from tinytrain.network import Layer, Network, Preprocessing
from tinytrain.plan import Recipe, Resources, TaskShape, Update
from tinytrain.seeds import rng_for

STEM = 12
NOISE = 0.3
# Expansion, output channels, kernel, stride of each block; no expansion: depthwise straight away.
BLOCKS = (
    (0, 8, 3, 1),
    (32, 16, 3, 2),
    (48, 24, 3, 2),
    (72, 24, 5, 1),
    (72, 40, 5, 2),
    (120, 40, 5, 1),
    (120, 40, 5, 1),
    (160, 64, 5, 2),
    (192, 64, 3, 1),
    (192, 96, 3, 1),
)
CLASSES = range(48, 336)  # the default generated domain is 0..47: never seen here
PER_CLASS = 24
WAY, SHOTS, QUERIES = 10, 2, 3
MICRO = 5  # pictures per call
RATE = 0.02  # highest learning rate of a weight, as a share of the rms of its layer's weights
BIAS_RATE = 2e-3
WARM_UP = 0.04  # share of the run in which the rates rise; then they fall along a cosine
BETA2 = 0
AUG = 1.0
TURNED=0.5
GREY=0.0
SOFT=0
RESTART = 200  # episodes after which the moments start again
EPISODES = 3000
OUT = Path(__file__).resolve().parents[1] / "tinytrain" / "backbones" / "placeholder.safetensors"


# ---- the network ---------------------------------------------------------------------------


def architecture(size: int = 128) -> tuple[Layer, ...]:
    """Stem, inverted bottlenecks, the last of which gives the embedding."""
    layers: list[Layer] = []

    def add(name, kind, cout, kernel, stride, relu6, block, residual=False):
        cin, in_hw = (layers[-1].cout, layers[-1].out_hw) if layers else (3, (size, size))
        out_hw = ((in_hw[0] - 1) // stride + 1, (in_hw[1] - 1) // stride + 1)
        layers.append(Layer(name, kind, cin, cout, kernel, stride, in_hw, out_hw, relu6, block, residual))

    add("stem", "conv", STEM, 3, 2, True, 0)
    for number, (expanded, cout, kernel, stride) in enumerate(BLOCKS):
        name, block, cin = f"block{number}", number + 1, layers[-1].cout
        if expanded:
            add(f"{name}.expand", "pointwise", expanded, 1, 1, True, block)
        add(f"{name}.depthwise", "depthwise", layers[-1].cout, kernel, stride, True, block)
        add(f"{name}.project", "pointwise", cout, 1, 1, False, block, (cin, 1) == (cout, stride))
    return tuple(layers)


def convolve(x: np.ndarray, layer: Layer, weight: np.ndarray) -> np.ndarray:
    """Convolution of x (n, h, w, cin) without bias, in plain numpy."""
    if layer.kind == "pointwise":
        return x @ weight
    pad = layer.pad
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = sliding_window_view(x, (layer.kernel, layer.kernel), axis=(1, 2))
    windows = windows[:, :: layer.stride, :: layer.stride]  # n, h, w, cin, kernel, kernel
    if layer.kind == "depthwise":
        taps = weight.reshape(layer.kernel, layer.kernel, layer.cout)
        return np.einsum("nhwcij,ijc->nhwc", windows, taps)
    rows = windows.transpose(0, 1, 2, 4, 5, 3)
    return np.ascontiguousarray(rows).reshape(*rows.shape[:3], -1) @ weight


def initial_network(seed: int, pictures: np.ndarray) -> Network:
    """Random weights; every channel has mean 0 and variance 1 before its ReLU6 on `pictures` (n, h, w, 3).

    What batch normalisation would do in the first step is done once, so that units start alive.
    The last layer of a residual block starts at half that size.
    """
    layers, contract = architecture(pictures.shape[1]), Preprocessing(size=pictures.shape[1])
    x = (pictures.astype(np.float32) - np.float32(contract.mean)) * np.float32(contract.scale)
    skip, weights, biases = x, [], []
    for i, layer in enumerate(layers):
        if i == 0 or layers[i - 1].block != layer.block:
            skip = x
        rng = rng_for(seed, "weights", layer.name)
        weight = rng.standard_normal((layer.fan_in, layer.cout), dtype=np.float32)
        if layer.kind == "depthwise":
            weight *= NOISE
            weight[layer.fan_in // 2] += 1
        y = convolve(x, layer, weight)
        size = np.float32(0.5 if layer.residual else 1) / (y.std(axis=(0, 1, 2)) + np.float32(1e-6))
        weights.append(weight * size)
        biases.append(-y.mean(axis=(0, 1, 2)) * size)
        x = y * size + biases[-1]
        if layer.relu6:
            x = np.clip(x, 0, 6)
        elif layer.residual:
            x = x + skip
    scales = (None,) * len(layers)
    return Network("placeholder", layers, tuple(weights), scales, tuple(biases), contract)


def quantised(network: Network) -> Network:
    """The network with int8 weights: symmetric, one scale per output channel."""
    weights, scales = [], []
    for weight in network.weights:
        scale = np.maximum(np.abs(weight).max(axis=0), np.float32(1e-12)) / np.float32(127)
        scales.append(scale)
        weights.append(np.rint(weight / scale).astype(np.int8))
    return replace(network, weights=tuple(weights), scales=tuple(scales))


# ---- episodes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Rendered pictures (class, picture, size, size, 3) that episodes are drawn from."""

    pictures: np.ndarray
    seed: int

    def episode(self, number: int) -> list[np.ndarray]:
        """WAY * SHOTS support pictures class by class, then WAY * QUERIES query pictures likewise.

        A turned, mirrored or recoloured class is another class: half of the classes are.
        """
        rng = rng_for(self.seed, "placeholder episode", number)
        support, queries = [], []
        grey, invert = rng.random() < GREY, rng.random() < 0.5
        for c in rng.choice(len(self.pictures), WAY, replace=False):
            chosen = rng.choice(self.pictures.shape[1], SHOTS + QUERIES, replace=False)
            pictures = [self.pictures[c, p] for p in chosen]
            if rng.random() < TURNED:
                turn, mirrored, colours = rng.integers(4), rng.random() < 0.5, rng.permutation(3)
                pictures = [np.rot90(p[:, ::-1] if mirrored else p, turn)[..., colours] for p in pictures]
            if grey:
                pictures = [np.repeat(p[..., 1:2], 3, axis=-1) for p in pictures]
                if invert:
                    pictures = [255 - p for p in pictures]
            support += pictures[:SHOTS]
            queries += pictures[SHOTS:]
        return support + queries


def render(seed: int, classes=CLASSES, per_class: int = PER_CLASS, size: int = 128) -> Pool:
    """Draw all pictures once: that is cheaper than drawing them again in every episode."""
    pictures = np.empty((len(classes), per_class, size, size, 3), np.uint8)
    for row, c in zip(pictures, classes, strict=True):
        for p in range(per_class):
            row[p] = generate(c, p, seed, size)
    return Pool(pictures, seed)


# ---- training ------------------------------------------------------------------------------


class Training:
    """Full training of a float network by the engine, one episode at a time."""

    def __init__(self, network: Network, pool: Pool):
        self.pool, self.current = pool, []
        updates = tuple(Update(i, tuple(range(n.cout)), bias=True) for i, n in enumerate(network.layers))
        rates = tuple((RATE * float(np.sqrt(np.mean(w * w))), BIAS_RATE) for w in network.weights)
        recipe = Recipe("full", updates, rates, "adam", "both", head="cosine")
        resources = Resources(0, MICRO, 1, WAY * SHOTS, WAY * QUERIES)
        labels = np.concatenate([np.repeat(np.arange(WAY), k) for k in (SHOTS, QUERIES)]).astype(np.int32)
        program = compile_training(network, recipe, resources, TaskShape(len(labels), WAY))
        self.working, size = WorkingCopy(network), network.preprocessing.size
        self.trainer = Trainer(
            program, Arena(program.nbytes), self.working, kernel_table.load(),
            lambda i: self.current[i],
            lambda view, i: None if rng_for(pool.seed, "placeholder plain", view, i).random()>AUG*self.progress else draw(rng_for(pool.seed, "placeholder view", view, i), size, may_flip=False),
            labels,
        )  # fmt: skip
        self.trainer.class_sizes.fill(SHOTS)  # only support pictures make prototypes
        self.rates = self.trainer.rates.copy()

    def step(self, number: int, progress: float) -> tuple[float, float]:
        """Loss and accuracy of episode `number` (from 0) before its update; `progress` runs from 0 to 1."""
        trainer = self.trainer
        if number % (10**9 if BETA2 else RESTART) == 0:
            trainer.start()
        self.progress = progress
        self.current = self.pool.episode(number)
        support = [(number + 1, i) for i in range(WAY * SHOTS)]
        queries = [(number + 1, i) for i in range(WAY * SHOTS, len(self.current))]
        loss = trainer.compute_gradients(support, queries)
        right = trainer.cosine.argmax(axis=1) == trainer.labels[WAY * SHOTS :]
        rise, fall = (progress + 1e-3) / WARM_UP, (1 + math.cos(math.pi * progress)) / 2
        np.multiply(self.rates, np.float32(min(1.0, rise) * fall * (min(1, (number % RESTART + 1) / SOFT) if SOFT else 1)), out=trainer.rates)
        if BETA2:
            trainer.kernels.adam(
                trainer.trained, trainer.gradients[0], *trainer.states, trainer.work, trainer.starts, trainer.rates,
                np.float32(0.9), np.float32(BETA2), number + 1,
            )  # fmt: skip
            for k, a in trainer.write_back:
                k(*a)
        else:
            trainer.update(number % RESTART + 1)
        return loss, float(right.mean())

    def result(self) -> Network:
        """The network as it is now."""
        working = self.working
        return replace(
            working.network,
            weights=tuple(w.copy() for w in working.weights),
            biases=tuple(b.copy() for b in working.biases),
        )


def train(network: Network, pool: Pool, episodes: int, minutes: float | None = None) -> tuple[Network, int]:
    """The trained network and the number of episodes; with `minutes` the clock decides, not `episodes`."""
    training, start = Training(network, pool), time.perf_counter()
    loss, accuracy, number, progress = math.log(WAY), 1 / WAY, 0, 0.0
    while progress < 1:
        now_loss, now_accuracy = training.step(number, progress)
        loss += 0.02 * (now_loss - loss)
        accuracy += 0.02 * (now_accuracy - accuracy)
        number += 1
        seconds = time.perf_counter() - start
        progress = seconds / (60 * minutes) if minutes else number / episodes
        if number % 50 == 0 or progress >= 1:
            left = seconds * max(0.0, 1 / progress - 1)
            print(
                f"episode {number}  loss {loss:.3f}  accuracy {accuracy:.1%}  {left:.0f} s left",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    return training.result(), number
