"""Random arguments for the kernels of feature maps: filters, patches, pooling, modules, activations."""

import numpy as np
from int8cases import sizes as _sizes
from kernelarrays import Output, cases_in, fresh
from kernelarrays import normal as _normal

from tinytrain.kernels import reference
from tinytrain.network.node import ACTIVATIONS
from tinytrain.program.autodiff.activations import INPUT, ROWS


def _convolution(r):
    """(kernel size, stride, x, y shape, w) of a depthwise layer; narrow and wide ones take other loops."""
    size, stride = int(r.choice([1, 3, 5, 7])), int(r.choice([1, 1, 2, 3]))
    n, height, width = _sizes(r, 3, 14, 14)
    (channels,) = _sizes(r, int(r.choice([15, 16, 63, 64, 90])))
    out = (n, -(-height // stride), -(-width // stride), channels)
    return size, stride, _normal(r, n, height, width, channels), out, _normal(r, size * size, channels)


def depthwise_forward(r):
    size, stride, x, out, w = _convolution(r)
    return fresh(*out), x, w, _normal(r, out[3]), size, stride, (size - 1) // 2, bool(r.random() < 0.5)


def depthwise_grad_input(r):
    size, stride, x, out, w = _convolution(r)
    return fresh(*x.shape), fresh(out[3], compared="no"), _normal(r, *out), w, size, stride


def depthwise_grad_weight(r):
    size, stride, x, out, w = _convolution(r)
    return Output(w), x, _normal(r, *out), size, stride


def enter(r):
    height, width, rows, columns = _sizes(r, 16, 16, 8, 24)
    channels = int(r.choice([1, 2, 3, 6]))
    image = r.integers(0, 256, (height, width, channels), dtype=np.uint8)
    first, side = int(r.integers(-3, height + 3)), int(r.integers(4))
    rotated = bool(r.integers(2))
    return fresh(rows, columns, channels), image, first, side, rotated, *_normalisation(r, channels, width)


def _filters(r):
    """(rows, columns, stride, padding above and left) of filters, and how many fit in a number of pixels."""
    sides, stride = [int(r.choice([1, 3, 5, 7])) for _ in range(2)], int(r.choice([1, 2]))
    pads = [int(r.integers(side)) for side in sides]
    fit = [
        lambda count, side=side, pad=pad: (count + 2 * pad - side) // stride + 1
        for side, pad in zip(sides, pads, strict=True)
    ]
    return (*sides, stride, *pads), fit


def _normalisation(r, channels, size):
    """Means and scales of channels, so often."""
    return (np.tile(np.float32(r.uniform(*ends, channels)), size) for ends in ((90, 140), (0.005, 0.02)))


def pool(r):
    n, positions, channels = _sizes(r, 4, 50, 70)
    return fresh(n, channels), _normal(r, n, positions, channels)


def pool_grad(r):
    n, positions, channels = _sizes(r, 4, 50, 70)
    return fresh(n, positions, channels), _normal(r, n, channels)


def _patches(r):
    """Shapes of a plane and of what some output rows read of it, and the numbers that say which rows."""
    n, height, width, channels = _sizes(r, 3, 8, 8, 12)
    height, width = height + 6, width + 6
    filters, (down, across) = _filters(r)
    lines = down(height)
    first = int(r.integers(0, n * lines))
    rows = int(r.integers(1, n * lines - first + 1))
    shape = rows, across(width), filters[0] * filters[1] * channels
    return (n, height, width, channels), shape, (*filters, first, lines)


def unfold_plane(r):
    x, y, which = _patches(r)
    return fresh(*y), _normal(r, *x), *which


def add_patches(r):
    x, y, which = _patches(r)
    return Output(_normal(r, *x)), _normal(r, *y), *which


def _halves(r):
    """Shapes of a plane and of the one that `pool2` makes of some of its channels, and the first of these."""
    n, height, width, channels, others = _sizes(r, 3, 9, 9, 40, 9)
    first = int(r.integers(0, others))
    whole = n, height, width, channels + others - 1
    return whole, (n, max(1, height // 2), max(1, width // 2), channels), first


def pool2(r):
    whole, half, first = _halves(r)
    return fresh(*half), _normal(r, *whole), first


def pool2_grad(r):
    whole, half, first = _halves(r)
    return Output(_normal(r, *whole)), _normal(r, *half), first


def _sampled(r):
    """Shapes of a plane and of a smaller or larger one."""
    n, height, width, channels, down, across = _sizes(r, 3, 9, 9, 40, 9, 9)
    return (n, height, width, channels), (n, down, across, channels)


def upsample_add(r):
    y, x = _sampled(r)
    return Output(_normal(r, *y)), _normal(r, *x)


def upsample_grad(r):
    g, gx = _sampled(r)
    return fresh(*gx), _normal(r, *g)


def relu(r):
    (m,) = _sizes(r, 300)
    return (Output(4 * _normal(r, m)),)


def smooth(r):
    (m,) = _sizes(r, 300)
    return fresh(m), 4 * _normal(r, m)


def smooth_grad(r):
    (m,) = _sizes(r, 300)
    return Output(_normal(r, m)), 4 * _normal(r, m)


def _max_pooled(r):
    """A feature map and its largest values; some are equal."""
    n, height, width, channels = _sizes(r, 3, 9, 9, 40)
    x = np.maximum(_normal(r, n, height, width, channels), 0)
    high, wide, down, across = (int(k) for k in r.integers(1, 4, 4))
    top, side = int(r.integers(min(high, height))), int(r.integers(min(wide, width)))
    window = high, wide, down, across, top, side
    rows, columns = (
        max(1, -(-(count + pad - size) // step) + int(r.integers(2)))
        for count, pad, size, step in ((height, top, high, down), (width, side, wide, across))
    )
    rows, columns = min(rows, (height + top - 1) // down + 1), min(columns, (width + side - 1) // across + 1)
    y = np.empty((n, rows, columns, channels), np.float32)
    reference.max_pool(y, x, *window)
    return x, y, window


def max_pool(r):
    x, y, window = _max_pooled(r)
    return fresh(*y.shape), x, *window


def max_taps(r):
    x, y, window = _max_pooled(r)
    return fresh(*y.shape, dtype=np.uint8), x, y, *window


def max_pool_grad(r):
    x, y, window = _max_pooled(r)
    taps = np.empty(y.shape, np.uint8)
    reference.max_taps(taps, x, y, *window)
    return fresh(*x.shape), _normal(r, *y.shape), taps, *window


def put_columns(r):
    m, some, before, behind = _sizes(r, 60, 40, 9, 9)
    return Output(_normal(r, m, some + before + behind - 2)), _normal(r, m, some), before - 1


def take_columns(r):
    m, some, before, behind = _sizes(r, 60, 40, 9, 9)
    return fresh(m, some), _normal(r, m, some + before + behind - 2), before - 1


def leaky_relu(r):
    (m,) = _sizes(r, 300)
    return fresh(m), 4 * _normal(r, m), np.float32(0.2), np.float32(r.choice([-0.4, -3e38]))


def leaky_relu_grad(r):
    (m,) = _sizes(r, 300)
    y = np.maximum(_normal(r, m), np.float32(-0.4))
    return Output(_normal(r, m)), y, np.float32(0.2), np.float32(-0.4)


def scale_channels(r):
    n, positions, channels = _sizes(r, 4, 50, 70)
    return fresh(n, positions, channels), _normal(r, n, positions, channels), _normal(r, n, channels)


def scale_channels_grad(r):
    n, positions, channels = _sizes(r, 4, 50, 70)
    return fresh(n, channels), *(_normal(r, n, positions, channels) for _ in range(2))


def _rows(r):
    """A matrix, some rows of which are zeros."""
    m, c = _sizes(r, 60, 40)
    x = _normal(r, m, c + 1)
    x[r.random(m) < 0.3] = 0
    return x


def softmax(r):
    m, n = _sizes(r, 60, 40)
    y = 4 * _normal(r, m, n)
    y[:, 1:][r.random((m, n - 1)) < 0.2] = -np.inf
    return Output(y), np.float32(0.3)


def softmax_grad(r):
    m, n = _sizes(r, 60, 40)
    p = np.abs(_normal(r, m, n)) + np.float32(0.1)
    return Output(_normal(r, m, n)), p / p.sum(axis=1, keepdims=True), np.float32(0.3)


def standardise(r):
    x = _normal(r, *_sizes(r, 60, 40))
    return fresh(*x.shape), x, np.float32(1e-2)


def standardise_grad(r):
    x = _normal(r, *_sizes(r, 60, 40))
    return Output(_normal(r, *x.shape)), x, np.float32(1e-2)


def absent(r):
    x = _rows(r)
    return fresh(len(x)), x


def clear_rows(r):
    x = _rows(r)
    return Output(_normal(r, len(x), 5)), x


def embed(r):
    m, v, c = _sizes(r, 60, 40, 40)
    ids = r.integers(0, v + 3, m).astype(r.choice(["f", "B"]))
    return fresh(m, c), ids, _normal(r, v, c), _normal(r, c)


def embed_grad(r):
    m, v, c = _sizes(r, 60, 40, 40)
    ids = r.integers(0, v + 3, m).astype(r.choice(["f", "B"]))
    return Output(_normal(r, v, c)), ids, _normal(r, m, c)


# Kernels of activations without numbers, and those of their gradients, which keep the input.
SMOOTH = {
    row.kernel: row.gradient
    for name, row in ROWS.items()
    if row.keeps == INPUT and not row.in_place and not ACTIVATIONS[name]
}
MAP_CASES = cases_in(globals()) | {
    **dict.fromkeys(SMOOTH, smooth),
    **dict.fromkeys(SMOOTH.values(), smooth_grad),
}
