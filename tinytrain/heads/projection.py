"""A hidden layer of random weights that nobody stores: they are computed again, bit for bit, from a number.

A weight is +1 or -1, a bit of a mixed counter (SplitMix64: Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014), so every machine makes the same layer from integers. Signs
keep distances as well as normal random numbers (Achlioptas, "Database-friendly random projections", 2003).
"""

import numpy as np

from tinytrain.heads.recursive import product

LEAST_SPREAD = 1e-6  # squared: images that are all alike say nothing about how far others lie apart
UNITS_AT_A_TIME = 16  # so that little memory is needed
STEP = 0x9E3779B97F4A7C15
SIGNS, BIASES = 0, 1 << 40  # where the counters of each begin


def write_centre(centre: np.ndarray, support) -> float:
    """Write the mean of the clean images to `centre` (1, d); their mean squared distance from it."""
    n = support.write_mean(centre)
    return spread_of(float(np.square(centre).sum()), n)


def spread_of(squared: float, n: int) -> float:
    """Mean squared distance of `n` unit embeddings from their mean, whose `squared` length is given.

    It would be too small by 1 / n, as the mean is their own. If they are all alike, that of unrelated ones
    stands for it.
    """
    spread = (1 - squared) * n / max(n - 1, 1)
    return spread if spread > LEAST_SPREAD else 1.0


def hidden(centred: np.ndarray, units: int, slope: float) -> np.ndarray:
    """(n, units) sigmoids of random projections of `centred` (n, d), each times `slope`, plus a bias."""
    found = np.empty((len(centred), units), centred.dtype)
    for first in range(0, units, UNITS_AT_A_TIME):
        numbers = np.arange(first, min(units, first + UNITS_AT_A_TIME), dtype=np.uint64)
        signs, biases = _signs(numbers, centred.shape[1]), _biases(numbers).astype(centred.dtype)
        for row, x in zip(found, centred, strict=True):
            row[first : first + len(numbers)] = sigmoid(product(signs, x) * x.dtype.type(slope) + biases)
    return found


def sigmoid(x: np.ndarray) -> np.ndarray:
    """From 0 to 1, with the slope of the logistic function at 0.

    All processors round its operations alike, which does not hold for exponentials.
    """
    half = x / 2
    return half / np.sqrt(half * half + 1) / 2 + x.dtype.type(0.5)


def _signs(units: np.ndarray, size: int) -> np.ndarray:
    """Weights (n, size) int8 of some units."""
    words = -(-size // 64)
    counters = units[:, None] * np.uint64(words) + np.arange(words, dtype=np.uint64)
    octets = _mixed(counters + np.uint64(SIGNS)).astype("<u8").view(np.uint8)
    bits = np.unpackbits(octets, axis=1, count=size, bitorder="little")
    return 2 * bits.astype(np.int8) - 1


def _biases(units: np.ndarray) -> np.ndarray:
    """Numbers (n,) from -1 to below 1, of 24 bits: exact in float32."""
    return (_mixed(units + np.uint64(BIASES)) >> np.uint64(40)).astype(np.float64) / 2**23 - 1


def _mixed(counters: np.ndarray) -> np.ndarray:
    z = (counters + np.uint64(1)) * np.uint64(STEP)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
