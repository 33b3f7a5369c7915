"""Activations, max pooling and scaled channels in plain numpy: a part of `reference`."""

import math

import numpy as np


def window(padded, dy, dx, shape, stride):
    """The inputs that tap (dy, dx) reads, one for each output position."""
    rows = slice(dy, dy + (shape[1] - 1) * stride + 1, stride)
    cols = slice(dx, dx + (shape[2] - 1) * stride + 1, stride)
    return padded[:, rows, cols]


def relu(y):
    np.maximum(y, 0, out=y)


def pack(bits, found):
    """Bit k of byte i is ``found[k * len(bits) + i]``."""
    every = np.zeros(8 * len(bits), bool)
    every[: len(found)] = found
    bits[...] = np.packbits(every.reshape(8, -1), axis=0, bitorder="little")[0]


def pack_positive(bits, y):
    pack(bits, y > 0)


def hard_swish(y, x):
    y[...] = x * np.clip(x + 3, 0, 6) / 6


def hard_swish_grad(g, x):
    g *= np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5)).astype(g.dtype)


def hard_sigmoid(y, x):
    y[...] = np.clip(x + 3, 0, 6) / 6


def hard_sigmoid_grad(g, x):
    g *= ((x > -3) & (x < 3)).astype(g.dtype) / 6


def _pooled(x, shape, outside, high, wide, down, across, top, side):
    """(taps, *shape): what every window of `max_pool` reads of x, `outside` where that is padding."""
    padded = np.pad(x, ((0, 0), (top, high), (side, wide), (0, 0)), constant_values=outside)
    rows, columns = (np.arange(count) * step for count, step in ((shape[1], down), (shape[2], across)))
    taps = ((dy, dx) for dy in range(high) for dx in range(wide))
    return np.stack([padded[:, (rows + dy)[:, None], columns + dx] for dy, dx in taps])


def max_pool(y, x, *window):
    y[...] = _pooled(x, y.shape, -np.inf, *window).max(axis=0)


def max_taps(taps, x, y, *window):
    taps[...] = _pooled(x, y.shape, -np.inf, *window).argmax(axis=0)


def max_pool_grad(gx, g, taps, *window):
    """By the definition: every g goes to the index of the input that its tap reads."""
    indices = _pooled(np.arange(1, gx.size + 1).reshape(gx.shape), g.shape, 0, *window)  # 0 is the padding
    chosen = np.take_along_axis(indices, taps[None].astype(int), axis=0).reshape(-1)
    sums = np.bincount(chosen, g.reshape(-1).astype(np.float64), gx.size + 1)
    gx[...] = sums[1:].reshape(gx.shape)


def put_columns(y, x, first):
    y[:, first : first + x.shape[1]] = x


def take_columns(y, x, first):
    y[...] = x[:, first : first + y.shape[1]]


def leaky_relu(y, x, slope, floor):
    y[...] = np.maximum(np.where(x > 0, x, slope * x), floor)


def leaky_relu_grad(g, y, slope, floor):
    g *= np.where(y > 0, 1, np.where(y > floor, slope, 0)).astype(g.dtype)


def scale_channels(y, x, s):
    y[...] = x * s[:, None]


def scale_channels_grad(gs, g, x):
    gs[...] = (g * x).sum(axis=1)


_normal = np.vectorize(lambda x: 0.5 + 0.5 * math.erf(x / math.sqrt(2)), otypes=[float])


def gelu(y, x):
    y[...] = x * _normal(x)


def gelu_grad(g, x):
    g *= (_normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)).astype(g.dtype)


def softmax(y, scale):
    y[...] = np.exp(scale * (y - y.max(axis=1, keepdims=True)))
    y /= y.sum(axis=1, keepdims=True)


def softmax_grad(g, p, scale):
    g[...] = scale * p * (g - (g * p).sum(axis=1, keepdims=True))


def standardise(y, x, epsilon):
    y[...] = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + epsilon)


def standardise_grad(g, x, epsilon):
    y = np.empty_like(x)
    standardise(y, x, epsilon)
    g -= g.mean(axis=1, keepdims=True) + y * (g * y).mean(axis=1, keepdims=True)
    g /= np.sqrt(x.var(axis=1, keepdims=True) + epsilon)


def absent(p, x):
    p[...] = np.where(x.any(axis=1), 0, -1e30)


def clear_rows(y, x):
    y[~x.any(axis=1)] = 0


def _known(ids, w):
    return (ids > 0) & (ids < len(w))


def embed(y, ids, w, b):
    known = _known(ids, w)
    y[...] = np.where(known[:, None], w[np.where(known, ids, 0).astype(int)] + b, 0)


def embed_grad(gw, ids, g):
    known = _known(ids, gw)
    np.add.at(gw, ids[known].astype(int), g[known])
