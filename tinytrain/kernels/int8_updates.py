"""How int8 weights take the steps of `optimizer`, by one of four rules of rounding, and are copied."""

import numpy as np

from tinytrain.kernels.jit import kernel, ordered

ONE = np.float32(1)
HIGHEST, CARRY = np.float32(127), np.float32(256)
LEAST, MOST = np.float32(-128), np.float32(127)
NEAREST, TRUNCATED, STOCHASTIC = 0, 1, 2
LIMIT = np.float32(2**30)


@ordered
def _uniform(place, offset):
    """float32 from 0 up to 1: a hash of a place, both uint32."""
    h = np.uint32(np.uint32(place) * np.uint32(0x9E3779B1) + offset)
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
    h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
    h = np.uint32(h ^ (h >> np.uint32(16)))
    return np.float32(np.int32(h >> np.uint32(8))) * np.float32(2**-24)


@ordered
def _kept(value):
    """A weight, from -127 to 127."""
    return np.int8(np.int32(min(max(value, -HIGHEST), HIGHEST)))


@ordered
def _rounded(w, rest, steps, lsb, columns, offset, rule):
    """As `round_codes`; randomness follows from `offset`.

    Without fast-math flags, so that every processor computes the same codes.
    """
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            target = np.float32(w[i, j]) - steps[i, j] * lsb[columns[j]]
            if rule == NEAREST:
                w[i, j] = _kept(np.rint(target))
            elif rule == TRUNCATED:
                w[i, j] = _kept(np.trunc(target))
            elif rule == STOCHASTIC:
                w[i, j] = _kept(np.floor(target + _uniform(i * w.shape[1] + j, offset)))
            else:
                target = target + np.float32(rest[i, j]) / CARRY
                found = min(max(np.rint(target), -HIGHEST), HIGHEST)
                left = np.floor((target - found) * CARRY + _uniform(i * w.shape[1] + j, offset))
                if left > MOST and found < HIGHEST:  # a half: the next code, and minus a half
                    found, left = found + ONE, left - CARRY
                rest[i, j] = np.int8(np.int32(min(max(left, LEAST), MOST)))
                w[i, j] = np.int8(np.int32(found))


@kernel
def round_codes(w, rest, steps, lsb, columns, seed, rule, step, salt):
    """w (i, j) int8 minus `steps` (i, j) float32 times ``lsb[columns]``, rounded by `rule`.

    rest (i, j) int8 is what rounding lost, in 1 / 256 of a code; only the rule CARRIED uses it. `lsb` (c,)
    float32, `columns` (j,) int32; seed (1,), `step` and `salt` decide what is drawn.
    """
    offset = np.uint32(salt) * np.uint32(0x85EBCA6B) + np.uint32(step) * np.uint32(0xC2B2AE35)
    offset = np.uint32(offset + np.uint32(seed[0]) * np.uint32(0x27D4EB2F))
    _rounded(w, rest, steps, lsb, columns, offset, rule)


@ordered
def _rounded_masters(w, masters, steps, lsb, columns):
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            masters[i, j] -= steps[i, j] * lsb[columns[j]]
            w[i, j] = _kept(np.rint(masters[i, j]))


@kernel
def round_masters(w, masters, steps, lsb, columns):
    """masters (i, j) float32, in codes, minus `steps` times ``lsb[columns]``; w (i, j) int8 is nearest.

    steps (i, j) float32, `lsb` (c,) float32, `columns` (j,) int32.
    """
    _rounded_masters(w, masters, steps, lsb, columns)


@kernel
def gather_weights(y, w, rows, columns, turned):
    """y (i, j) int8 from int8 weights w: w[columns, rows] where they are (cout, fan_in): `turned`.

    `rows` (i,) and `columns` (j,) int32; w is (fan_in, cout) otherwise.
    """
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = w[columns[j], rows[i]] if turned else w[rows[i], columns[j]]


@kernel
def scatter_weights(w, rows, columns, x, turned):
    """x (i, j) int8 into weights w, as `gather_weights` takes them."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if turned:
                w[columns[j], rows[i]] = x[i, j]
            else:
                w[rows[i], columns[j]] = x[i, j]


@ordered
def _in_units(value, unit):
    return np.int32(min(max(np.rint(value / unit), -LIMIT), LIMIT))


@kernel
def fold_bias(y, b, unit, w, zero, turned):
    """y (n,) int32: the multiples of `unit` (n,) nearest to b (n,), minus what the zero of inputs adds up to.

    b, unit float32; w is int8 (n, k) if `turned`, else (k, n).
    """
    for j in range(y.shape[0]):
        y[j] = 0
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            y[i if turned else j] += w[i, j]
    for j in range(y.shape[0]):
        y[j] = _in_units(b[j], unit[j]) - np.int32(zero) * y[j]
