"""Random arguments for every kernel."""

import numpy as np
from int8cases import INT8_CASES
from int8cases import sizes as _sizes
from kernelarrays import Output, fresh
from kernelarrays import normal as _normal

from tinytrain.kernels import reference
from tinytrain.network.node import ACTIVATIONS
from tinytrain.program.autodiff.activations import INPUT, ROWS


def _labels(r, count, ways) -> np.ndarray:
    return r.integers(0, ways, count).astype(np.int32)


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


def matmul(r):
    """Whole matrices or transposed ones; or columns of wider ones, as for one group of channels."""
    m, k, n = _sizes(r, 40, 40, 40)
    y, x, w = fresh(m, n), _normal(r, m, k), _normal(r, k, n)
    turned = _normal(r, k, m).T, _normal(r, n, k).T
    wide = Output(_columns(y.start), True), _columns(x), _columns(w)
    kind = r.integers(8)
    if kind == 0:
        return wide[0], x, wide[2]
    if kind == 1:
        return y, wide[1], _columns(turned[1].T).T
    if kind == 2:
        return wide[0], turned[0], wide[2]
    return y, (x, turned[0])[kind % 2], (w, turned[1])[kind // 2 % 2]


def _columns(matrix) -> np.ndarray:
    """The same numbers as columns of a wider matrix, of which they are not all."""
    wide = np.zeros((len(matrix), matrix.shape[1] + 5), matrix.dtype)
    wide[:, 2:-3] = matrix
    return wide[:, 2:-3]


def unfold(r):
    (filters, (down, across)), (height, width) = _filters(r), _sizes(r, 16, 16)
    channels = int(r.choice([1, 2, 3, 6]))
    image = r.integers(0, 256, (height + 7, width + 7, channels), dtype=np.uint8)
    lines, columns = down(height + 7), across(width + 7)
    first = int(r.integers(lines))
    (count,) = _sizes(r, lines - first)
    out = fresh(count, columns, channels * filters[0] * filters[1])
    how = *filters, first, bool(r.integers(2))
    return out, image, *how, *_normalisation(r, channels, filters[1])


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
    """Means and scales of channels, as `unfold` takes them."""
    return (np.tile(np.float32(r.uniform(*ends, channels)), size) for ends in ((90, 140), (0.005, 0.02)))


def _rows(r):
    return _sizes(r, 50, 70)


def add_bias(r):
    m, n = _rows(r)
    return Output(4 * _normal(r, m, n)), _normal(r, n)


def add_bias_residual(r):
    m, n = _rows(r)
    return Output(_normal(r, m, n)), _normal(r, n), _normal(r, m, n)


def pack_mask(r):
    (m,) = _sizes(r, 300)
    return fresh(-(-m // 8), dtype=np.uint8), 4 * _normal(r, m)


def apply_mask(r):
    (m,) = _sizes(r, 300)
    return Output(_normal(r, m)), r.integers(0, 256, -(-m // 8), dtype=np.uint8)


def accumulate(r):
    (m,) = _sizes(r, 300)
    return Output(_normal(r, m)), _normal(r, m)


def copy(r):
    (m,) = _sizes(r, 300)
    return fresh(m), _normal(r, m)


def transpose(r):
    m, n = _sizes(r, 40, 40)
    return fresh(m, n), _normal(r, n, m)


def _chosen(r, n) -> np.ndarray:
    (count,) = _sizes(r, n)
    return np.sort(r.permutation(n)[:count]).astype(np.int32)


def gather_columns(r):
    m, n = _rows(r)
    columns = _chosen(r, n)
    return fresh(m, len(columns)), _normal(r, m, n), columns


def scatter_block(r):
    m, n = _rows(r)
    rows, columns = _chosen(r, m), _chosen(r, n)
    return Output(_normal(r, m, n)), rows, columns, _normal(r, len(rows), len(columns))


def add_column_sums(r):
    m, n = _rows(r)
    return Output(_normal(r, n)), _normal(r, m, n)


def pool(r):
    n, positions, channels = _sizes(r, 4, 50, 70)
    return fresh(n, channels), _normal(r, n, positions, channels)


def pool_grad(r):
    n, positions, channels = _sizes(r, 4, 50, 70)
    return fresh(n, positions, channels), _normal(r, n, channels)


def add_fisher(r):
    m, n = _rows(r)
    return Output(np.abs(_normal(r, n))), fresh(n, compared="no"), _normal(r, m, n), _normal(r, m, n)


def prototype_loss(r):
    n, ways, d = _sizes(r, 9, 8, 40)
    f, p = _normal(r, n, d), _normal(r, ways, d)
    return fresh(n), fresh(n, ways), fresh(n, ways), f, _labels(r, n, ways), p, np.float32(10)


def entropy(r):
    n, ways = _sizes(r, 9, 8)
    cosine = np.tanh(_normal(r, n, ways))
    return fresh(n), fresh(n, ways), cosine, np.float32(10), np.float32(r.uniform(0.1, 1))


def prototype_loss_grad(r):
    n, ways, d = _sizes(r, 9, 8, 40)
    tables = _normal(r, n, ways), _normal(r, n, ways)
    return fresh(n, d), *tables, _normal(r, n, d), _normal(r, ways, d), np.float32(10)


def class_sums(r):
    n, ways, d = _sizes(r, 9, 8, 40)
    counts = r.integers(0, 3, ways).astype(np.float32)
    return Output(_normal(r, ways, d)), Output(counts), _normal(r, n, d), _labels(r, n, ways)


def _positive(r, d) -> np.ndarray:
    """A symmetric matrix that is safely positive definite."""
    x = _normal(r, d, d + 8)
    return x @ x.T / d + np.eye(d, dtype=np.float32)


def cholesky(r):
    (d,) = _sizes(r, 24)
    return (Output(_positive(r, d)),)


def cholesky_solve(r):
    k, d = _sizes(r, 6, 24)
    return Output(_normal(r, k, d)), np.linalg.cholesky(_positive(r, d)).astype(np.float32)


def inverse_diagonal(r):
    (d,) = _sizes(r, 24)
    return fresh(d), np.linalg.cholesky(_positive(r, d)).astype(np.float32)


def add_outer(r):
    n, d = _sizes(r, 9, 24)
    return Output(np.tril(_normal(r, d, d))), _normal(r, n, d), np.float32(-0.5)


def normalize_rows(r):
    n, d = _sizes(r, 9, 40)
    return (Output(_normal(r, n, d)),)


def _trained(r):
    """(numbers, start of each slice and the end, a rate per slice)."""
    sizes = _sizes(r, 5, 60, 40)[int(r.integers(3)) :]
    starts = np.cumsum([0, *sizes]).astype(np.int32)
    return int(starts[-1]), starts, r.uniform(0.01, 0.3, len(sizes)).astype(np.float32)


def _moments(r, count, positive=False) -> Output:
    values = np.abs(_normal(r, count)) if positive else _normal(r, count)
    return Output((values.view(np.uint32) >> 16).astype(np.uint16), compared="moments")


def sgd(r):
    m, starts, rates = _trained(r)
    return Output(_normal(r, m)), _normal(r, m), starts, rates


def momentum(r):
    m, starts, rates = _trained(r)
    work = Output(np.zeros(int(r.integers(1, 33)), np.float32), compared="no")
    return Output(_normal(r, m)), _normal(r, m), _moments(r, m), work, starts, rates, np.float32(0.9)


def adam(r):
    m, starts, rates = _trained(r)
    work = Output(np.zeros(2 * int(r.integers(1, 17)), np.float32), compared="no")
    moments = _moments(r, m), _moments(r, m, positive=True)
    betas = np.float32(0.9), np.float32(0.999)
    return Output(_normal(r, m)), _normal(r, m), *moments, work, starts, rates, *betas, int(r.integers(1, 50))


def augment(r):
    height, width = _sizes(r, 20, 20)
    image = r.integers(0, 256, (height, width, int(r.choice([1, 3]))), dtype=np.uint8)
    down, right = (int(r.integers(-limit - 1, limit + 2)) for limit in (height, width))
    values = np.float32(r.uniform(-20, 20)), np.float32(r.uniform(0.5, 1.5)), np.float32(r.uniform(0.5, 1.5))
    turn = (r.uniform(0.5, 1.5), r.uniform(-1, 1)) if r.random() < 0.5 else (1, 0)
    out = fresh(*image.shape, dtype=np.uint8, compared="codes")
    return out, image, bool(r.random() < 0.5), down, right, *map(np.float32, turn), *values, np.uint8(128)


def augment_rows(r):
    _, image, *how = augment(r)
    top = int(r.integers(len(image)))
    (count,) = _sizes(r, len(image) - top)
    out = fresh(count, *image.shape[1:], dtype=np.uint8, compared="codes")
    return out, image, image.sum(dtype=np.int64)[None], top, *how


def sum_pixels(r):
    return fresh(1, dtype=np.int64, compared="equal"), augment(r)[1]


def quantize(r):
    (m,) = _sizes(r, 300)
    return fresh(m, dtype=np.uint8, compared="codes"), fresh(2), _normal(r, m)


def dequantize(r):
    (m,) = _sizes(r, 300)
    codes = r.integers(0, 256, m, dtype=np.uint8)
    return fresh(m), codes, _normal(r, 2)


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


# Kernels of activations without numbers, and those of their gradients, which keep the input.
SMOOTH = {
    row.kernel: row.gradient
    for name, row in ROWS.items()
    if row.keeps == INPUT and not row.in_place and not ACTIVATIONS[name]
}
CASES = {
    function.__name__: function
    for function in (
        accumulate, adam, add_bias, add_bias_residual, add_column_sums, add_fisher, add_outer, add_patches,
        apply_mask, augment, augment_rows, cholesky, cholesky_solve, class_sums, copy, depthwise_forward,
        leaky_relu, leaky_relu_grad, put_columns, take_columns,
        depthwise_grad_input, depthwise_grad_weight, dequantize, entropy, gather_columns,
        inverse_diagonal, matmul, max_pool, max_pool_grad, max_taps, momentum,
        normalize_rows, pack_mask, pool, pool2, pool2_grad, pool_grad, prototype_loss, prototype_loss_grad,
        quantize, relu, scale_channels, scale_channels_grad, scatter_block, sgd, sum_pixels, transpose,
        unfold, unfold_plane, upsample_add, upsample_grad,
    )
} | {
    "add_bias_relu6": add_bias, "pack_positive": pack_mask,
    **dict.fromkeys(SMOOTH, smooth), **dict.fromkeys(SMOOTH.values(), smooth_grad),
} | INT8_CASES  # fmt: skip
