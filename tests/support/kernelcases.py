"""Random arguments for every kernel; those of feature maps and of int8 are in files of their own."""

import numpy as np
from int8cases import INT8_CASES
from int8cases import sizes as _sizes
from kernelarrays import Output, cases_in, fresh
from kernelarrays import normal as _normal
from mapcases import MAP_CASES


def _labels(r, count, ways) -> np.ndarray:
    return r.integers(0, ways, count).astype(np.int32)


def matmul(r):
    return _products(r, fresh)


def add_matmul(r):
    return _products(r, lambda *shape: Output(_normal(r, *shape)))


def product(r):
    y, x, w = add_matmul(r)
    x = x[None, :, None]
    if r.integers(2):
        x, n = windows(r), w.shape[1]
        m, k = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
        y, w = Output(_normal(r, m, n)), _normal(r, k, n)
    m, n = y.start.shape
    return y, x, w, _normal(r, n), _normal(r, m, n), int(r.integers(16))


def windows(r):
    """What filters read of a plane; they overlap, or some numbers are read by none."""
    rows, columns, stride, channels, *more = _sizes(r, 4, 4, 3, 5, 6, 12)
    height, width = rows + more[0] - 1, columns + more[1] - 1
    lines = _normal(r, height, width * channels)
    found = np.lib.stride_tricks.sliding_window_view(lines, (rows, columns * channels))
    return found[::stride, :: stride * channels]


def _products(r, result):
    """Whole matrices or transposed ones; or columns of wider ones, as for one group of channels."""
    m, k, n = _sizes(r, 40, 40, 40)
    y, x, w = result(m, n), _normal(r, m, k), _normal(r, k, n)
    turned = _normal(r, k, m).T, _normal(r, n, k).T
    wide = Output(_columns(y.start), y.fresh), _columns(x), _columns(w)
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


CASES = (
    cases_in(globals()) | {"add_bias_relu6": add_bias, "pack_positive": pack_mask} | MAP_CASES | INT8_CASES
)
