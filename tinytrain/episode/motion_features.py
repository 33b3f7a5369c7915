"""What is computed of a recording of motion: numbers that tell movements apart, whatever its length or units.

Axes are taken in threes, as sensors have them, and divided by their root mean square, so that g, m/s² and the
counts of a sensor are alike. A recording is cut into PARTS of equal length. Of each axis come the mean of
every part, the logarithm of its deviation, and that of the energy in BANDS of frequencies, an octave or less
each, in windows of WINDOW values. With `neurons` there are also the mean states of an echo state network
(Jaeger 2001), which the axes drive. All is computed in float64, with the tanh and the FFT of numpy: the last
bit of a float32 feature may differ between processors.
"""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tinytrain.base.random_streams import rng_for

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
    """The features (len(names_of(axes, neurons)),) float64 of a recording (n, axes)."""
    scaled, level = _scaled(values)
    parts = [scaled[a:b] for a, b in _cuts(len(scaled), PARTS)]
    means, deviations = (np.stack([of(part, axis=0) for part in parts]) for of in (np.mean, np.std))
    found = [level, means.ravel(), _log(deviations).ravel(), _log(_bands(scaled)).ravel()]
    if reservoir:
        found.append(_mean_state(scaled, reservoir))
    return np.concatenate(found)


def _scaled(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`values` by the root mean square length of the vectors of each sensor, and its logarithm."""
    scaled, levels = values.copy(), []
    for start in range(0, values.shape[1], GROUP):
        sensor = scaled[:, start : start + GROUP]
        length = float(np.sqrt(np.square(sensor).sum(axis=1).mean()))
        sensor /= length or 1.0
        levels.append(np.log10(length + 1e-6))
    return scaled, np.array(levels)


def _cuts(count: int, parts: int) -> list[tuple[int, int]]:
    ends = np.linspace(0, count, parts + 1).round().astype(int).tolist()
    return list(pairwise(ends))


def _log(values: np.ndarray) -> np.ndarray:
    return np.log10(values + FLOOR)


def _bands(values: np.ndarray) -> np.ndarray:
    """Roots of the energies (axes, BANDS) of windows all over the recording, of a short one as a whole."""
    size = min(WINDOW, len(values))
    count = min(MOST_WINDOWS, 1 + -(-2 * (len(values) - size) // size))
    starts = np.linspace(0, len(values) - size, count).round().astype(int)
    windows = values[starts[:, None] + np.arange(size)]
    windows = (windows - windows.mean(axis=1, keepdims=True)) * np.hanning(size)[:, None]
    energies = np.square(np.abs(np.fft.rfft(windows, axis=1))).mean(axis=0) / size**2
    edges = np.geomspace(1 / WINDOW, 0.5, BANDS + 1)[1:-1]
    band = np.searchsorted(edges, np.arange(len(energies)) / size, side="right")
    sums = np.zeros((values.shape[1], BANDS))
    np.add.at(sums.T, band, energies)
    return np.sqrt(sums)


def _mean_state(values: np.ndarray, reservoir: Reservoir) -> np.ndarray:
    states_ = states(values, reservoir)
    return states_[min(reservoir.washout, len(states_) // 2) :].mean(axis=0)


def states(values: np.ndarray, reservoir: Reservoir) -> np.ndarray:
    """The states (n, neurons) of an echo state network that reads `values` (n, axes), the first from rest."""
    recurrent, inputs, bias = matrices(reservoir.neurons, values.shape[1], reservoir.seed)
    recurrent, driven = recurrent * reservoir.scale, values @ inputs.T + bias
    found, state, leak = np.empty_like(driven), np.zeros(reservoir.neurons), reservoir.leak
    for k, drive in enumerate(driven):
        found[k] = state = (1 - leak) * state + leak * np.tanh(recurrent @ state + drive)
    return found


@lru_cache(maxsize=4)
def matrices(neurons: int, axes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Recurrent weights (neurons, neurons), INPUTS of each row not 0, weights of the axes, and biases."""
    rng = rng_for(seed, "reservoir", neurons)
    recurrent = np.zeros((neurons, neurons))
    for row in recurrent:
        row[rng.permutation(neurons)[:INPUTS]] = rng.uniform(-1, 1, min(INPUTS, neurons))
    return recurrent, rng.uniform(-1, 1, (neurons, axes)), rng.uniform(-0.5, 0.5, neurons)
