"""Optimizers, and how int8 weights take their steps, in plain numpy: a part of `reference`."""

import numpy as np

from tinytrain.kernels.reference import from_bfloat16, to_bfloat16

LOWEST, HIGHEST = -128, 127
NEAREST, TRUNCATED, STOCHASTIC, CARRIED = range(4)  # rules of `round_codes`
CARRY = np.float32(256)  # parts of a code that a carried rest counts
SALT, STEP, SEED = 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F  # factors of what `uniform` is drawn by


def _spread(starts, rates):
    return np.repeat(rates, np.diff(starts))


def sgd_step(g, starts, rates):
    """g becomes what is to be taken from the parameters."""
    g *= _spread(starts, rates)


def momentum_step(g, m, work, starts, rates, beta):
    moment = beta * from_bfloat16(m) + g
    g[...] = _spread(starts, rates) * moment
    m[...] = to_bfloat16(moment)


def adam_step(g, m, v, work, starts, rates, beta1, beta2, step):
    first = beta1 * from_bfloat16(m) + (1 - beta1) * g
    second = beta2 * from_bfloat16(v) + (1 - beta2) * g * g
    slope = first / (1 - beta1**step) / (np.sqrt(second / (1 - beta2**step)) + 1e-8)
    g[...] = _spread(starts, rates) * slope
    m[...] = to_bfloat16(first)
    v[...] = to_bfloat16(second)


def uniform(count, seed, step, salt):
    """float32 (count,) from 0 up to 1: a hash of its place, the step, `salt` and the seed."""
    parts = ((salt, SALT), (step, STEP), (seed, SEED))
    offset = sum(int(value) * factor for value, factor in parts) & 0xFFFFFFFF
    h = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(offset)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x7FEB352D)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x846CA68B)
    h ^= h >> np.uint32(16)
    return (h >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def round_codes(w, rest, steps, lsb, columns, seed, rule, step, salt):
    """w (i, j) int8 minus `steps` times `lsb[columns]`, rounded by `rule` and kept from -127 to 127.

    CARRIED keeps what rounding lost in `rest` (i, j) int8, in 1 / 256 of a code, for the next step. The other
    rules ignore it.
    """
    target = w.astype(np.float32) - steps * lsb[columns]
    if rule == NEAREST:
        found = np.rint(target)
    elif rule == TRUNCATED:
        found = np.trunc(target)
    elif rule == STOCHASTIC:
        found = np.floor(target + uniform(w.size, seed[0], step, salt).reshape(w.shape))
    else:
        target = target + rest.astype(np.float32) / CARRY
        found = np.clip(np.rint(target), -HIGHEST, HIGHEST)
        left = np.floor((target - found) * CARRY + uniform(w.size, seed[0], step, salt).reshape(w.shape))
        over = (left > HIGHEST) & (found < HIGHEST)  # a half: the next code, and minus a half
        found, left = found + over, left - CARRY * over
        rest[...] = np.clip(left, LOWEST, HIGHEST)
    w[...] = np.clip(found, -HIGHEST, HIGHEST)


def round_masters(w, masters, steps, lsb, columns):
    """masters (i, j) float32, in codes, minus `steps` times `lsb[columns]`; w (i, j) the nearest codes."""
    masters -= steps * lsb[columns]
    w[...] = np.clip(np.rint(masters), -HIGHEST, HIGHEST)


def take_step(w, steps):
    """w (n,) float32 minus steps (n,)."""
    w -= steps


def gather_weights(y, w, rows, columns, turned):
    """y (i, j) int8 from weights w: w[columns, rows] where they are (cout, fan_in): `turned`."""
    y[...] = w[np.ix_(columns, rows)].T if turned else w[np.ix_(rows, columns)]


def scatter_weights(w, rows, columns, x, turned):
    """x (i, j) int8 into weights w, as `gather_weights` takes them."""
    if turned:
        w[np.ix_(columns, rows)] = x.T
    else:
        w[np.ix_(rows, columns)] = x


def fold_bias(y, b, unit, w, zero, turned):
    """y (n,) int32: the multiples of `unit` nearest to b (n,), minus what the zero of inputs adds up to."""
    sums = w.sum(axis=1 if turned else 0, dtype=np.int32)
    y[...] = np.clip(np.rint(b / unit), -(2**30), 2**30).astype(np.int32) - np.int32(zero) * sums
