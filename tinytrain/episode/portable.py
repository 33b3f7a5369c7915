"""Functions of float32 arrays that have the same bits on every processor, and in the C that `emit` writes.

They use additions, products, quotients and square roots of numpy, element by element, which IEEE 754 rounds;
sums are added in double, one number after another. `own_exp` and `own_log` of the kernels, and the emitted
`kernels_math.c`, have the same lines.
"""

from functools import lru_cache

import numpy as np

F = np.float32
LN2_HIGH, LN2_LOW, PER_LN2 = F(0.693145751953125), F(1.4286068203094172e-06), F(1.4426950408889634)
HALF_ROOT, PER_LN10 = F(0.7071067811865476), F(0.4342944819032518)
EXP = tuple(F(1 / n) for n in (5040, 720, 120, 24, 6, 2))
ARTANH = tuple(F(1 / n) for n in (9, 7, 5, 3))
FLAT = F(9)  # from here on tanh is 1


def tanh(x: np.ndarray) -> np.ndarray:
    """1 - 2 / (e^2x + 1): within 2e-7."""
    x = F(2) * np.clip(x, -FLAT, FLAT)
    whole = np.trunc(x * PER_LN2 + np.copysign(F(0.5), x))
    r = (x - whole * LN2_HIGH) - whole * LN2_LOW
    y = EXP[0] * r + EXP[1]
    for factor in EXP[2:]:
        y = y * r + factor
    y = np.ldexp((y * r * r + r) + F(1), whole.astype(np.int32))
    return F(1) - F(2) / (y + F(1))


def log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of numbers above 0, within 2 units in the last place."""
    part, whole = np.frexp(x)
    low = part < HALF_ROOT
    part, whole = np.where(low, F(2) * part, part), (whole - low).astype(F)
    s = (part - F(1)) / (part + F(1))
    q = s * s
    y = ARTANH[0] * q + ARTANH[1]
    for factor in ARTANH[2:]:
        y = y * q + factor
    y = F(2) * (s + s * (y * q))
    return whole * LN2_HIGH + (whole * LN2_LOW + y)


def log10(x: np.ndarray) -> np.ndarray:
    return log(x) * PER_LN10


def total(x: np.ndarray) -> np.ndarray:
    """Sums over the first axis, float64."""
    return np.cumsum(x, axis=0, dtype=np.float64)[-1]


def powers(frames: np.ndarray) -> np.ndarray:
    """Squared magnitudes (n, size // 2 + 1) of the Fourier transform of frames (n, size), a power of two."""
    count, size = frames.shape
    cosine, sine = turns(size)
    re, im = frames[:, _reversed(size)], np.zeros_like(frames)
    half = 1
    while half < size:
        step = size // 2 // half
        c, s = cosine[::step], sine[::step]
        (a, b), (d, e) = (part.reshape(count, -1, 2, half).transpose(2, 0, 1, 3) for part in (re, im))
        right, up = b * c + e * s, e * c - b * s
        b[...], e[...] = a - right, d - up
        a += right
        d += up
        half *= 2
    keep = slice(size // 2 + 1)
    return re[:, keep] * re[:, keep] + im[:, keep] * im[:, keep]


@lru_cache(4)
def turns(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines (size // 2,) of the first half of a turn."""
    angles = 2 * np.pi * np.arange(size // 2) / size
    return np.cos(angles).astype(F), np.sin(angles).astype(F)


@lru_cache(4)
def _reversed(size: int) -> np.ndarray:
    """Numbers below `size`, a power of two, with their bits from the last to the first."""
    found = np.zeros(1, np.int64)
    while len(found) < size:
        found = np.concatenate([2 * found, 2 * found + 1])
    return found
