"""What is computed of a recording of motion: numbers that tell movements apart, whatever its length or units.

Axes are taken in threes, as sensors have them, and divided by their root mean square, so that g, m/s² and the
counts of a sensor are alike. A recording is cut into PARTS of equal length. Of each axis come the mean of
every part, the logarithm of its deviation, and that of the energy in BANDS of frequencies, an octave or less
each, in windows of WINDOW values. With `neurons` there are also the mean states of an echo state network
(Jaeger 2001), which the axes drive. Features are computed in float32 by `portable`: they have the same bits
everywhere, also in the C that `emit` writes (`motion.c`).
"""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.episode.portable import log10, powers, tanh, total

PARTS, BANDS, WINDOW, MOST_WINDOWS = 4, 8, 64, 256
GROUP = 3  # axes of a sensor
FLOOR = 1e-3  # of a deviation, as a share of the root mean square
INPUTS = 10  # neurons that a neuron reads
# A feature enters as (value - CENTRE) * SCALE: chosen on public recordings, one of a wrist and one of a fan.
CENTRE = {"level": 0.0, "mean": 0.2, "deviation": -1.4, "band": -2.2, "state": 0.0}
SCALE = {"level": 0.5, "mean": 3.0, "deviation": 2.0, "band": 1.5, "state": 0.5}


class Reservoir(NamedTuple):
    """An echo state network: `neurons` drawn by `seed`, whose recurrent weights are multiplied with `scale`.

    A new state is ``(1 - leak) * state + leak * tanh(...)``; the first `washout` states do not count.
    """

    neurons: int
    seed: int
    scale: float
    leak: float
    washout: int


def names_of(axes: int, neurons: int = 0) -> list[str]:
    """The kind of each feature, a key of CENTRE, in the order in which `features` gives them."""
    counts = (-(-axes // GROUP), PARTS * axes, PARTS * axes, BANDS * axes, neurons)
    return [name for name, count in zip(CENTRE, counts, strict=True) for _ in range(count)]


def features(values: np.ndarray, reservoir: Reservoir | None = None) -> np.ndarray:
    """The features (len(names_of(axes, neurons)),) float32 of a recording (n, axes)."""
    scaled, level = _scaled(values.astype(np.float32))
    parts = [scaled[a:b] for a, b in pairwise(k * len(scaled) // PARTS for k in range(PARTS + 1))]
    means = np.stack([_mean(part) for part in parts])
    away = (part - mean for part, mean in zip(parts, means, strict=True))
    deviations = np.sqrt(np.stack([_mean(np.square(each, dtype=np.float64)) for each in away]))
    found = [level, means.ravel(), _log(deviations).ravel(), _log(_bands(scaled)).ravel()]
    if reservoir:
        passed = states(scaled, reservoir)
        found.append(_mean(passed[min(reservoir.washout, len(passed) // 2) :]))
    return np.concatenate(found)


def _mean(x: np.ndarray) -> np.ndarray:
    return (total(x) / len(x)).astype(np.float32)


def _scaled(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`values` by the root mean square length of the vectors of each sensor, and its logarithm."""
    scaled, levels = values.copy(), []
    for start in range(0, values.shape[1], GROUP):
        sensor = scaled[:, start : start + GROUP]
        squares = total(np.square(sensor, dtype=np.float64).ravel())
        length = np.sqrt(np.float32(squares / len(sensor)))
        sensor /= length or np.float32(1)
        levels.append(length)
    return scaled, log10(np.array(levels) + np.float32(1e-6))


def _log(values: np.ndarray) -> np.ndarray:
    return log10(values + np.float32(FLOOR))


def _bands(values: np.ndarray) -> np.ndarray:
    """Roots of the energies (axes, BANDS) of windows all over the recording, of a short one as a whole."""
    size = min(WINDOW, len(values))
    rest = len(values) - size
    count = min(MOST_WINDOWS, 1 - -2 * rest // size)
    starts = np.arange(count) * rest // max(1, count - 1)
    weights, band = hann(size), band_of()
    sums = np.zeros((values.shape[1], BANDS), np.float32)
    for axis, one in enumerate(values.T):
        windows = one[starts[:, None] + np.arange(size)]
        framed = np.zeros((count, WINDOW), np.float32)
        framed[:, :size] = (windows - _mean(windows.T)[:, None]) * weights
        energies = powers(framed)
        scale = float(count * size * WINDOW)
        sums[axis] = [total(energies[:, band == b].ravel()) / scale for b in range(BANDS)]
    return np.sqrt(sums)


def hann(size: int) -> np.ndarray:
    """The weights (size,) float32 of the values in a window."""
    return np.hanning(size).astype(np.float32)


def band_of() -> np.ndarray:
    """The band (WINDOW // 2 + 1,) of each frequency of a window."""
    edges = np.geomspace(1 / WINDOW, 0.5, BANDS + 1)[1:-1]
    return np.searchsorted(edges, np.arange(WINDOW // 2 + 1) / WINDOW, side="right")


def states(values: np.ndarray, reservoir: Reservoir) -> np.ndarray:
    """The states (n, neurons) of an echo state network that reads `values` (n, axes), the first from rest.

    They have the dtype of `values`, float32 or float64.
    """
    places, *drawn = matrices(reservoir.neurons, values.shape[1], reservoir.seed)
    drawn[0] = drawn[0] * reservoir.scale
    recurrent, inputs, bias = (each.astype(values.dtype) for each in drawn)
    squashed, leak = tanh if values.dtype == np.float32 else np.tanh, values.dtype.type(reservoir.leak)
    kept = values.dtype.type(1 - reservoir.leak)
    found, state = np.empty((len(values), len(bias)), values.dtype), np.zeros_like(bias)
    for row, into in zip(values, found, strict=True):
        drives = np.concatenate([bias[None], inputs * row[:, None], recurrent * state[places]])
        into[...] = state = kept * state + leak * squashed(np.add.accumulate(drives)[-1])
    return found


@lru_cache(maxsize=4)
def matrices(neurons: int, axes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Neurons (INPUTS, neurons) that each one reads, their weights, those of axes (axes, neurons), biases."""
    rng = rng_for(seed, "reservoir", neurons)
    count = min(INPUTS, neurons)
    read = [(rng.uniform(-1, 1, count), rng.permutation(neurons)[:INPUTS]) for _ in range(neurons)]
    recurrent, places = (np.ascontiguousarray(np.stack(part).T) for part in zip(*read, strict=True))
    return places, recurrent, rng.uniform(-1, 1, (neurons, axes)).T, rng.uniform(-0.5, 0.5, neurons)
