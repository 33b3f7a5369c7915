"""Trains the small backbone that the package carries until the offline stage delivers a real one.

A placeholder: 0.12 M weights, from random initialisation, on generated pictures alone, with the
engine of the device: full training of few-shot episodes, cosine prototypes, the gradient through
support and queries. ``python -m tinytrain.meta.placeholder`` makes the file and its model card
again; the same arguments, versions and kind of processor give the same bytes.
"""

import argparse
import math
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import tinytrain
from tinytrain import kernels as kernel_table
from tinytrain.arena import Arena
from tinytrain.augment import Augmentation, draw
from tinytrain.blas import one_thread
from tinytrain.compile import compile_training
from tinytrain.datasets.signs import generate
from tinytrain.datasets.symbols import BODIES
from tinytrain.engine import Trainer, WorkingCopy
from tinytrain.errors import StorageError, TinytrainError
from tinytrain.meta.placeholder_card import Facts, compare_all, write_card
from tinytrain.meta.placeholder_network import initial_network, quantised
from tinytrain.modelfile import save_network
from tinytrain.network import Network
from tinytrain.plan import Recipe, Resources, TaskShape, Update
from tinytrain.seeds import rng_for

OUT = Path(tinytrain.__file__).parent / "backbones" / "placeholder.safetensors"
CLASSES = range(48, 336)  # the default domain `signs` has classes 0..47: none of them is seen here
PER_CLASS = 40
WAY, SHOTS, QUERIES = 10, 1, 1
MICRO = 5  # pictures per call
EPISODES = 13000
RATE = 0.007  # highest learning rate of a weight, as a share of the rms of its layer's first weights
BIAS_RATE = 1e-3
WARM_UP = 0.04  # share of the run in which the rates rise; then they fall along half a cosine
# In bfloat16 a second moment with decay .999 only grows once it counts some hundred steps: a change
# of .1 % is rounded away. So the moments start again before that, each time with rising rates.
RESTART, SOFT_START = 200, 20


# ---- episodes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Rendered pictures (class, picture, size, size, 3) that episodes are drawn from."""

    pictures: np.ndarray
    seed: int

    @property
    def sample(self) -> np.ndarray:
        """One picture of every ninth class, (n, size, size, 3), to initialise a network with."""
        return np.ascontiguousarray(self.pictures[::9, 0])

    def classes(self, rng: np.random.Generator, alike: bool) -> np.ndarray:
        """WAY classes in random order; `alike` ones share three bodies, so symbols must tell them apart."""
        candidates = np.arange(len(self.pictures))
        if alike:
            bodies = rng.choice(len(BODIES), 3, replace=False)
            candidates = candidates[np.isin(candidates % len(BODIES), bodies)]
        return rng.choice(candidates, WAY, replace=False)

    def episode(self, number: int, alike: float) -> list[np.ndarray]:
        """WAY * SHOTS support pictures class by class, then WAY * QUERIES query pictures likewise.

        Half of the classes are turned, mirrored and recoloured, which makes other classes of them;
        in one of five episodes all pictures are grey, so that colour is not all that is learned. A
        share `alike` of the episodes has classes that look alike.
        """
        rng = rng_for(self.seed, "episode", "placeholder", number)
        grey, negative = rng.random() < 0.2, rng.random() < 0.5
        support, queries = [], []
        for c in self.classes(rng, rng.random() < alike):
            chosen = rng.choice(self.pictures.shape[1], SHOTS + QUERIES, replace=False)
            pictures = [self.pictures[c, p] for p in chosen]
            if rng.random() < 0.5:
                turn, mirrored, colours = rng.integers(4), rng.random() < 0.5, rng.permutation(3)
                pictures = [np.rot90(p[:, ::-1] if mirrored else p, turn)[..., colours] for p in pictures]
            if grey:
                pictures = [np.repeat(p[..., 1:2], 3, axis=-1) for p in pictures]
                pictures = [255 - p for p in pictures] if negative else pictures
            support += pictures[:SHOTS]
            queries += pictures[SHOTS:]
        return support + queries

    def augmentation(self, number: int, i: int, share: float) -> Augmentation | None:
        """For a `share` of the pictures of episode `number`: what adaptation does to its pseudo-queries."""
        rng = rng_for(self.seed, "augmentation", "placeholder", number, i)
        return draw(rng, self.pictures.shape[2], may_flip=False) if rng.random() < share else None


def render(seed: int, classes: range, per_class: int, size: int = 128) -> Pool:
    """Draw all pictures once: drawing them afresh for every episode would double the time."""
    pictures = np.empty((len(classes), per_class, size, size, 3), np.uint8)
    for row, c in zip(pictures, classes, strict=True):
        for p in range(per_class):
            row[p] = generate(c, p, seed, size)
    return Pool(pictures, seed)


# ---- training ------------------------------------------------------------------------------


class Training:
    """Training of everything in a float network by the engine, one episode at a time."""

    def __init__(self, network: Network, pool: Pool):
        self.pool, self.current, self.progress = pool, [], 0.0
        updates = tuple(Update(i, tuple(range(n.cout)), bias=True) for i, n in enumerate(network.layers))
        rates = tuple((RATE * float(np.sqrt(np.mean(w * w))), BIAS_RATE) for w in network.weights)
        recipe = Recipe("full", updates, rates, "adam", "both", head="cosine")
        resources = Resources(0, MICRO, 1, WAY * SHOTS, WAY * QUERIES)
        labels = np.concatenate([np.repeat(np.arange(WAY), k) for k in (SHOTS, QUERIES)]).astype(np.int32)
        program = compile_training(network, recipe, resources, TaskShape(len(labels), WAY))
        self.working = WorkingCopy(network)
        self.trainer = Trainer(
            program, Arena(program.nbytes), self.working, kernel_table.load(),
            lambda i: self.current[i],
            lambda view, i: pool.augmentation(view - 1, i, self.progress / 2),
            labels,
        )  # fmt: skip
        # The queries are pictures of their own here: only support pictures make a class mean.
        self.trainer.class_sizes.fill(SHOTS)
        self.rates = self.trainer.rates.copy()

    def step(self, number: int, progress: float) -> tuple[float, float]:
        """Loss and accuracy of episode `number` (from 0), then its update; `progress` runs from 0 to 1."""
        trainer, n_support, phase = self.trainer, WAY * SHOTS, number % RESTART
        if phase == 0:
            trainer.start()
        self.progress, self.current = progress, self.pool.episode(number, 0.7 * progress)
        items = [(number + 1, i) for i in range(len(self.current))]
        loss = trainer.compute_gradients(items[:n_support], items[n_support:])
        right = trainer.cosine.argmax(axis=1) == trainer.labels[n_support:]
        rise = min(1, (progress + 1e-3) / WARM_UP) * min(1, (phase + 1) / SOFT_START)
        fall = (1 + math.cos(math.pi * progress)) / 2
        np.multiply(self.rates, np.float32(rise * fall), out=trainer.rates)
        trainer.update(phase + 1)
        return loss, float(right.mean())

    def result(self) -> Network:
        """The network as it is now."""
        weights = tuple(w.copy() for w in self.working.weights)
        return replace(
            self.working.network, weights=weights, biases=tuple(b.copy() for b in self.working.biases)
        )


def train(network: Network, pool: Pool, episodes: int, minutes: float | None = None) -> tuple[Network, int]:
    """The trained network and the number of episodes; with `minutes` the clock decides, not `episodes`."""
    training, start = Training(network, pool), time.perf_counter()
    means, number, progress = np.array([math.log(WAY), 1 / WAY]), 0, 0.0
    while progress < 1:
        means += 0.01 * (np.array(training.step(number, progress)) - means)
        number += 1
        seconds = time.perf_counter() - start
        progress = seconds / (60 * minutes) if minutes else number / episodes
        if number % 200 == 0 or progress >= 1:
            left = max(0.0, seconds / progress - seconds)
            say(f"episode {number}  loss {means[0]:.3f}  accuracy {means[1]:.1%}  {left:.0f} s left")
    return training.result(), number


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ---- the command ---------------------------------------------------------------------------


def make(out: Path, seed: int, episodes: int, minutes: float | None) -> None:
    """Train, judge and write the backbone `out` and its model card beside it."""
    if not out.parent.is_dir():
        raise StorageError("write-failed", f"{out.parent} is no folder; create it first")
    start = time.perf_counter()
    with one_thread():
        say(f"drawing {len(CLASSES)} classes of {PER_CLASS} pictures")
        pool = render(seed, CLASSES, PER_CLASS)
        first = initial_network(seed, pool.sample)
        trained, count = train(first, pool, episodes, minutes)
        network = quantised(trained)
        seconds = time.perf_counter() - start
        results = compare_all(network, first)
    facts = Facts(seed, count, minutes, WAY, SHOTS, QUERIES, CLASSES, PER_CLASS, seconds)
    save_network(network, out)
    write_card(out, network, facts, results)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tinytrain.meta.placeholder", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="default: the shipped file")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--episodes", type=int, default=EPISODES, metavar="N", help="default: %(default)s")
    length.add_argument("--minutes", type=float, help="train by the clock; not reproducible")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    given = parser.parse_args(arguments)
    if given.episodes < 1 or (given.minutes is not None and not given.minutes > 0):
        parser.error("--episodes and --minutes must be above 0")
    try:
        make(given.out, given.seed, given.episodes, given.minutes)
    except TinytrainError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted; nothing was written")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
