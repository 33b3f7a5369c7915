"""Exponential, logarithm and error function of float32.

Those of C libraries differ in last bits. These take additions, products and quotients alone, in one order, so
that every processor gives the same bits; `kernels_math.c` of the emitted C has the same lines.
"""

import math

import numpy as np

from tinytrain.kernels.jit import ordered

ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
INFINITY, LARGEST = np.float32(np.inf), np.float32(np.finfo(np.float32).max)
# ln 2 in two parts: products of the first, which has 16 bits, with whole numbers below 256 are exact.
LN2_HIGH, LN2_LOW = np.float32(0.693145751953125), np.float32(1.4286068203094172e-06)
PER_LN2 = np.float32(1.4426950408889634)
LEAST, MOST = np.float32(-104), np.float32(88.72284)  # beyond them the result is 0 or infinity
ROOT, HALF_ROOT = np.float32(1.4142135623730951), np.float32(0.7071067811865476)
SMALL, LARGE = np.float32(2.0**-16), np.float32(2.0**16)
# Taylor series of exp, highest power first, and of artanh(s) / s in powers of s^2.
EXP = tuple(np.float32(1 / math.factorial(n)) for n in range(7, 1, -1))
E7, E6, E5, E4, E3, E2 = EXP
# Of own_erf, highest power first.
ERF = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196,
       1.00002368, -1.26551223)  # fmt: skip
P9, P8, P7, P6, P5, P4, P3, P2, P1, P0 = map(np.float32, ERF)
T9, T7, T5, T3 = (np.float32(1 / n) for n in (9, 7, 5, 3))


def own_exp(x):
    """e to the power of a float32: below 2 units in the last place from it; NaN stays NaN."""
    if not x >= LEAST:
        return ZERO if x < LEAST else x
    if x > MOST:
        return INFINITY
    turns = x * PER_LN2
    k = np.int32(turns + HALF) if turns > ZERO else np.int32(turns - HALF)
    whole = np.float32(k)
    r = (x - whole * LN2_HIGH) - whole * LN2_LOW
    y = ((((E7 * r + E6) * r + E5) * r + E4) * r + E3) * r + E2
    y = (y * r * r + r) + ONE
    while k >= 16:
        y *= LARGE
        k -= 16
    while k > 0:
        y *= TWO
        k -= 1
    while k <= -16:
        y *= SMALL
        k += 16
    while k < 0:
        y *= HALF
        k += 1
    return y


def own_log(x):
    """Natural logarithm of a float32, within 2 units in the last place; -infinity of 0 and less."""
    if not x <= LARGEST:
        return x
    if not x > ZERO:
        return -INFINITY
    k = np.int32(0)
    while x >= ROOT:
        x *= HALF
        k += 1
    while x < HALF_ROOT:
        x *= TWO
        k -= 1
    s = (x - ONE) / (x + ONE)
    q = s * s
    y = (((T9 * q + T7) * q + T5) * q + T3) * q
    y = TWO * (s + s * y)
    whole = np.float32(k)
    return whole * LN2_HIGH + (whole * LN2_LOW + y)


exp, log = ordered(own_exp), ordered(own_log)


def own_erf(x):
    """Error function of a float32, within 3e-7: Chebyshev's polynomial of Press et al., Numerical Recipes."""
    size = -x if x < ZERO else x
    t = ONE / (ONE + HALF * size)
    y = ((((P9 * t + P8) * t + P7) * t + P6) * t + P5) * t + P4
    y = (((y * t + P3) * t + P2) * t + P1) * t + P0
    y = ONE - t * exp(y - size * size)
    return -y if x < ZERO else y


erf = ordered(own_erf)
