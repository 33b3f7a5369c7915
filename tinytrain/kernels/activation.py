"""Activations that stand alone, and what their gradients need; ReLU6 is a part of other kernels.

Arrays are flat. `hard_swish` and its relatives are as in Howard et al., ICCV 2019 (MobileNetV3).
"""

import math

import numpy as np

from tinytrain.kernels.exp_log import erf, exp
from tinytrain.kernels.jit import inlined, kernel

INFINITY, ZERO, ONE, THREE, SIX = map(np.float32, (np.inf, 0, 1, 3, 6))
ROOT_HALF, BELL = np.float32(math.sqrt(0.5)), np.float32(1 / math.sqrt(2 * math.pi))
SIXTH, HALF, THIRD = np.float32(1 / 6), np.float32(0.5), np.float32(1 / 3)


@kernel
def relu(y):
    """y (m,) = max(y, 0)."""
    for i in range(y.shape[0]):
        y[i] = max(y[i], ZERO)


@kernel
def leaky_relu(y, x, slope, floor):
    """y (m,) = x above 0, slope * x below it, and never less than `floor`; y may be x (m,)."""
    for i in range(y.shape[0]):
        low = slope * x[i]
        y[i] = x[i] if x[i] > ZERO else (floor if low < floor else low)  # NaN stays


@kernel
def leaky_relu_grad(g, y, slope, floor):
    """g (m,) *= derivative of `leaky_relu` where that gives y (m,)."""
    for i in range(g.shape[0]):
        g[i] *= ONE if y[i] > ZERO else (slope if y[i] > floor else ZERO)


@inlined
def pack(bits, y, low, high):
    """Bit k of byte i is 1 if `low` < y[k * len(bits) + i] <= `high`.

    Neighbours go to neighbouring bytes, so that the loops vectorise.
    """
    size = bits.shape[0]
    for i in range(size):
        bits[i] = 0
    for k in range(8):
        part = y[k * size : min((k + 1) * size, y.shape[0])]
        bit = np.uint8(1 << k)
        for i in range(part.shape[0]):
            bits[i] |= bit if part[i] > low and part[i] <= high else np.uint8(0)


@kernel
def pack_positive(bits, y):
    """bits (ceil(m / 8),) uint8: bit k of byte i is 1 if y[k * len(bits) + i] > 0, for y (m,).

    The order is that of `pack_mask`, so that `apply_mask` reads both.
    """
    pack(bits, y, ZERO, INFINITY)


@kernel
def hard_swish(y, x):
    """y (m,) = x * min(max(x + 3, 0), 6) / 6; y may be x (m,)."""
    for i in range(y.shape[0]):
        y[i] = x[i] * (min(max(x[i] + THREE, ZERO), SIX) * SIXTH)


@kernel
def hard_swish_grad(g, x):
    """g (m,) *= derivative of `hard_swish` at x (m,): 0 up to -3, 1 from 3 on, x / 3 + 1 / 2 between."""
    for i in range(g.shape[0]):
        slope = x[i] * THIRD + HALF
        g[i] *= ZERO if x[i] <= -THREE else (ONE if x[i] >= THREE else slope)


@kernel
def hard_sigmoid(y, x):
    """y (m,) = min(max(x + 3, 0), 6) / 6; y may be x (m,)."""
    for i in range(y.shape[0]):
        y[i] = min(max(x[i] + THREE, ZERO), SIX) * SIXTH


@kernel
def hard_sigmoid_grad(g, x):
    """g (m,) *= derivative of `hard_sigmoid` at x (m,): 1 / 6 between -3 and 3, elsewhere 0."""
    for i in range(g.shape[0]):
        g[i] *= SIXTH if x[i] > -THREE and x[i] < THREE else ZERO


@kernel
def gelu(y, x):
    """y (m,) = x times the share of a normal distribution below x (Hendrycks and Gimpel); y may be x (m,)."""
    for i in range(y.shape[0]):
        y[i] = x[i] * (HALF + HALF * erf(x[i] * ROOT_HALF))


@kernel
def gelu_grad(g, x):
    """g (m,) *= derivative of `gelu` at x (m,)."""
    for i in range(g.shape[0]):
        g[i] *= HALF + HALF * erf(x[i] * ROOT_HALF) + x[i] * BELL * exp(-HALF * x[i] * x[i])
