"""Random arguments for the kernels of int8 programs."""

import numpy as np
from headdata import unit32
from kernelarrays import Output, cases_in, fresh
from kernelarrays import normal as _values

EXACT = {"dtype": np.int8, "compared": "equal"}


def sizes(r, *limits) -> list[int]:
    """A size from 1 to each limit; one in four is 1 or the limit."""
    return [
        int(r.choice([1, limit])) if r.random() < 0.25 else int(r.integers(1, limit + 1)) for limit in limits
    ]


def codes(r, *shape) -> np.ndarray:
    """Codes of the whole range; in one of four calls only the lowest and the highest."""
    if r.random() < 0.25:
        return r.choice(np.array([-128, 127], np.int8), shape)
    return r.integers(-128, 128, shape, dtype=np.int8)


def weights(r, *shape) -> np.ndarray:
    """Weights from -127 to 127, those of the last channel 0 in one of four calls."""
    found = r.choice(np.array([-127, 127], np.int8), shape) if r.random() < 0.25 else None
    found = r.integers(-127, 128, shape, dtype=np.int8) if found is None else found
    return found if r.random() < 0.75 else found * np.int8(0)


def _zero(r) -> int:
    return int(r.integers(-128, 128))


def rescaling(r, n, fan_in) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Biases, factors and shifts (n,): usual ones, small shifts, any at all, or many sums that are halves."""
    kind = r.random()
    bias = r.integers(-(2**12), 2**12, n)
    factor, shift = r.integers(2**30, 2**31, n), 37 + r.integers(0, 3, n) + int(np.log2(fan_in) / 2)
    if kind < 0.2:
        bias, shift = r.integers(-(2**30), 2**30, n), r.choice([1, 2, 30, 31, 32, 33, 34, 61, 62], n)
    elif kind < 0.4:
        factor, shift = r.integers(0, 2 ** r.integers(1, 32, n)), r.integers(1, 63, n)
    elif kind < 0.5:
        factor = factor * 0
    elif kind < 0.7:
        bias, factor, shift = bias // 16, np.full(n, 2**30), r.integers(31, 40, n)
    return bias.astype(np.int32), factor.astype(np.int32), shift.astype(np.int32)


def _product(r, x, m, k, n):
    return fresh(m, n, **EXACT), x, weights(r, n, k), *rescaling(r, n, k), _zero(r)


def _product_sizes(r) -> list[int]:
    """Pixels, inputs and output channels: few and many take code of their own, fours of inputs, too."""
    m, k, n = sizes(r, 40, int(r.choice([8, 40, 140, 300, 700])), 40)
    return [m, k if r.random() < 0.5 else -(-k // 4) * 4, n]


def product_codes(r):
    m, k, n = _product_sizes(r)
    return _product(r, codes(r, m, k), m, k, n)


def product_wide(r):
    m, k, n = _product_sizes(r)
    return _product(r, r.integers(-2047, 2048, (m, k)).astype(np.int16), m, k, n)


def depthwise_codes(r):
    size, stride = int(r.choice([1, 3, 5, 7])), int(r.choice([1, 1, 2, 3]))
    n, height, width = sizes(r, 3, 14, 14)
    (channels,) = sizes(r, int(r.choice([15, 16, 63, 64, 90])))
    y = fresh(n, -(-height // stride), -(-width // stride), channels, **EXACT)
    w, scaled = weights(r, size * size, channels), rescaling(r, channels, size * size)
    x, top = codes(r, n, height, width, channels), (size - 1) // 2
    return y, x, w, *scaled, size, stride, top, int(r.choice([_zero(r), -128])), _zero(r)


def depthwise_grad_input_codes(r):
    size, stride = int(r.choice([1, 3, 5, 7])), int(r.choice([1, 2]))
    n, height, width = sizes(r, 3, 9, 9)
    channels = int(r.choice([16, 17, 40]))  # with fewer than 16, a part of the scratch stays as it was
    gx, work = fresh(n, height, width, channels), fresh(size * size, 16, compared="no")
    g = _values(r, n, -(-height // stride), -(-width // stride), channels)
    scale = r.uniform(0, 0.01, channels).astype(np.float32)
    return gx, work, g, weights(r, size * size, channels), scale, size, stride


def depthwise_grad_weight_codes(r):
    size, stride = int(r.choice([1, 3, 5, 7])), int(r.choice([1, 2]))
    n, height, width = sizes(r, 3, 9, 13)
    channels = int(r.choice([3, 16, 17, 40]))
    gw, g = (
        Output(_values(r, size * size, channels)),
        _values(r, n, -(-height // stride), -(-width // stride), channels),
    )
    return gw, codes(r, n, height, width, channels), g, np.float32(0.02), _zero(r), size, stride


def depthwise_grad_in_place(r):
    size = int(r.choice([1, 3, 5, 7]))
    n, height, width = sizes(r, 3, 9, 9)
    channels = int(r.choice([3, 16, 17, 40]))
    g, work = (
        Output(_values(r, n, height, width, channels)),
        fresh(size**2 + height * width, 16, compared="no"),
    )
    return g, work, weights(r, size * size, channels), r.uniform(0, 0.01, channels).astype(np.float32), size


def unfold_plane_codes(r):
    """Some output rows of several images, or of one whose first rows are made at a time."""
    n, height, width, channels, stride, size = sizes(r, 3, 8, 8, 12, 2, 3)
    lines, across, size = -(-height // stride), -(-width // stride), 2 * size - 1
    first, top = int(r.integers(0, n * lines)), int(r.integers(0, size))
    rows = int(r.integers(1, n * lines - first + 1))
    out = fresh(rows, across, size * size * channels, **EXACT)
    return out, codes(r, n, height, width, channels), size, stride, first, lines, top, _zero(r)


def unfold_codes(r):
    """Some images are about as wide as a row of codes that the kernel keeps, and some are wider."""
    size, stride = int(r.choice([3, 5, 7])), int(r.choice([1, 2]))
    height, width = sizes(r, 16, 16)
    channels = int(r.choice([1, 3, 6]))
    if r.random() < 0.2:
        height, width = min(height, 4), 2048 // channels + int(r.integers(-8, 9))
    image = r.integers(0, 256, (height, width, channels), dtype=np.uint8)
    rows, columns = -(-height // stride), -(-width // stride)
    first = int(r.integers(rows))
    (count,) = sizes(r, rows - first)
    table = r.integers(-2047, 2048, (256, channels)).astype(np.int16)
    out = fresh(count, columns, channels * size * size, dtype=np.int16, compared="equal")
    return out, image, table, size, stride, first, bool(r.integers(2))


def grad_weight_image(r):
    size, stride = int(r.choice([3, 5, 7])), int(r.choice([1, 2]))
    height, width, outputs = sizes(r, 12, 12, 20)
    channels = int(r.choice([1, 3, 6]))
    image = r.integers(0, 256, (height, width, channels), dtype=np.uint8)
    g = _values(r, -(-height // stride), -(-width // stride), outputs)
    table = r.integers(-2047, 2048, (256, channels)).astype(np.int16)
    gw = _values(r, size * size * channels, outputs)
    return Output(gw), image, g, table, np.float32(1e-3), size, stride, bool(r.integers(2))


def add_codes(r):
    (m,) = sizes(r, 300)
    factors, shift = r.integers(0, 2**20, 2), int(r.integers(1, 24))
    zeros = (_zero(r) for _ in range(3))
    return fresh(m, **EXACT), codes(r, m), codes(r, m), *map(int, factors), shift, *zeros


def pool_codes(r):
    n, positions, channels = sizes(r, 4, 50, 70)
    return fresh(n, channels), codes(r, n, positions, channels), np.float32(0.02 / positions), _zero(r)


def copy_codes(r):
    (m,) = sizes(r, 300)
    return fresh(m, **EXACT), codes(r, m)


def chosen(r, n) -> np.ndarray:
    (count,) = sizes(r, n)
    return np.sort(r.permutation(n)[:count]).astype(np.int32)


def gather_codes(r):
    m, n = sizes(r, 50, 70)
    columns = chosen(r, n)
    return fresh(m, len(columns), **EXACT), codes(r, m, n), columns


def pack_inside(r):
    (m,) = sizes(r, 300)
    return fresh(-(-m // 8), dtype=np.uint8, compared="equal"), codes(r, m)


def _terms(r) -> int:
    """The limit of how many are added up, which for the kernels may be more than they take at a time."""
    return int(r.choice([60, 60, 300]))


def grad_input_codes(r):
    m, n, k = sizes(r, 40, _terms(r), 60)
    scale = r.uniform(0, 0.01, n).astype(np.float32)
    return fresh(m, k), _values(r, m, n), weights(r, n, k), scale


def grad_weight_codes(r):
    m, k, j = sizes(r, _terms(r), 60, 60)
    return Output(_values(r, k, j)), codes(r, m, k), _values(r, m, j), np.float32(0.02), _zero(r)


def widen_codes(r):
    m, c = sizes(r, 50, 70)
    return fresh(m, c), codes(r, m, c), r.uniform(0, 0.01, c).astype(np.float32), _zero(r)


def _part(r, channels: int) -> tuple[int, int]:
    """The first and the number of some channels."""
    first = int(r.integers(channels))
    return first, int(r.integers(1, channels - first + 1))


def add_fisher_columns(r):
    m, c = sizes(r, 50, 70)
    first, b = _part(r, c)
    total, dots = Output(np.abs(_values(r, b))), fresh(b, compared="no")
    return total, dots, codes(r, m, c), _values(r, m, b), np.float32(0.02), _zero(r), first


def grad_input_columns(r):
    m, n, k = sizes(r, 30, _terms(r), 60)
    first, b = _part(r, k)
    scale = r.uniform(0, 0.01, n).astype(np.float32)
    return fresh(m, b), _values(r, m, n), weights(r, n, k), scale, first


def grad_input_rows(r):
    m, n, k = sizes(r, 30, _terms(r), 60)
    first, b = _part(r, n) if r.random() < 0.5 else (0, int(r.integers(1, n + 1)))
    gx = Output(_values(r, m, k)) if first else fresh(m, k)
    scale = r.uniform(0, 0.01, n).astype(np.float32)
    return gx, _values(r, m, b), weights(r, n, k), scale, first


def grad_weight_columns(r):
    m, k, n = sizes(r, _terms(r), 40, 60)
    first, b = _part(r, n)
    out = Output(_values(r, k, n))
    return out, codes(r, m, k), _values(r, m, b), np.float32(0.02), _zero(r), first


def mask_columns(r):
    m, c = sizes(r, 30, 60)
    first, b = _part(r, c)
    bits = r.integers(0, 256, -(-m * c // 8), dtype=np.uint8)
    return Output(_values(r, m, b), compared="equal"), bits, first, c


def gather_some(r):
    """Of all channels; x need not have them."""
    m, c = sizes(r, 30, 70)
    first, b = _part(r, c)
    columns = chosen(r, c)
    return Output(_values(r, m, len(columns)), compared="equal"), _values(r, m, b), columns, first


def widen_columns(r):
    t, c = sizes(r, 49, 70)
    first, b = _part(r, c)
    return fresh(t, b), weights(r, t, c), r.uniform(0, 0.01, c).astype(np.float32), first


def _trained(r):
    """(numbers, start of each slice and the end, a rate per slice)."""
    counts = sizes(r, 5, 60, 40)[int(r.integers(3)) :]
    starts = np.cumsum([0, *counts]).astype(np.int32)
    return int(starts[-1]), starts, r.uniform(0.01, 0.3, len(counts)).astype(np.float32)


def _moments(r, count, positive=False) -> Output:
    values = np.abs(_values(r, count)) if positive else _values(r, count)
    return Output((values.view(np.uint32) >> 16).astype(np.uint16), compared="moments")


def sgd_step(r):
    m, starts, rates = _trained(r)
    return Output(_values(r, m)), starts, rates


def momentum_step(r):
    m, starts, rates = _trained(r)
    work = Output(np.zeros(int(r.integers(1, 33)), np.float32), compared="no")
    return Output(_values(r, m)), _moments(r, m), work, starts, rates, np.float32(0.9)


def adam_step(r):
    m, starts, rates = _trained(r)
    work = Output(np.zeros(2 * int(r.integers(1, 17)), np.float32), compared="no")
    moments = _moments(r, m), _moments(r, m, positive=True)
    betas = np.float32(0.9), np.float32(0.999)
    return Output(_values(r, m)), *moments, work, starts, rates, *betas, int(r.integers(1, 50))


def _stepped(r):
    """Weights (i, j), steps, sizes of a code per channel, and the channel of every column."""
    i, j, more = sizes(r, 30, 40, 9)
    columns = np.sort(r.permutation(j + more)[:j]).astype(np.int32)
    lsb = r.uniform(0, 2, j + more).astype(np.float32)
    steps = _values(r, i, j) * np.float32(r.choice([0.1, 1, 200]))
    if r.random() < 0.25:  # halves, which go to even codes
        steps, lsb = np.rint(2 * steps) / 2, np.ones_like(lsb)
    return weights(r, i, j), steps, lsb, columns


def round_codes(r):
    w, steps, lsb, columns = _stepped(r)
    rule, step, salt = int(r.integers(4)), int(r.integers(1, 1000)), int(r.integers(100))
    rest, seed = codes(r, *w.shape), r.integers(0, 2**32, 1, dtype=np.uint32)
    outputs = Output(w, compared="equal"), Output(rest, compared="equal")
    return *outputs, steps, lsb, columns, seed, rule, step, salt


def round_masters(r):
    w, steps, lsb, columns = _stepped(r)
    beside = _values(r, *w.shape) / 4 if (lsb != 1).any() else np.rint(_values(r, *w.shape)) / 2
    masters = Output((w + beside).astype(np.float32), compared="equal")
    return Output(w, compared="equal"), masters, steps, lsb, columns


def take_step(r):
    (n,) = sizes(r, 300)
    return Output(_values(r, n)), _values(r, n)


def gather_weights(r):
    m, n = sizes(r, 50, 70)
    w, rows, columns, turned = weights(r, m, n), chosen(r, m), chosen(r, n), bool(r.integers(2))
    return fresh(len(rows), len(columns), **EXACT), w.T.copy() if turned else w, rows, columns, turned


def scatter_weights(r):
    m, n = sizes(r, 50, 70)
    w, rows, columns, turned = weights(r, m, n), chosen(r, m), chosen(r, n), bool(r.integers(2))
    w = Output(w.T.copy() if turned else w, compared="equal")
    return w, rows, columns, weights(r, len(rows), len(columns)), turned


def fold_bias(r):
    m, n = sizes(r, 50, 70)
    w, turned = weights(r, m, n), bool(r.integers(2))
    y, unit = fresh(n, dtype=np.int32, compared="equal"), r.uniform(1e-4, 1e-2, n).astype(np.float32)
    unit[:: int(r.integers(1, 9))] *= np.float32(r.choice([1, 1e-12]))
    return y, _values(r, n), unit, w.T.copy() if turned else w, _zero(r), turned


def _triangle(r, d: int, factor: bool = False) -> np.ndarray:
    """The packed lower triangle of a positive definite matrix (d, d), or of its factor."""
    x = r.standard_normal((d + 3, d))
    whole = x.T @ x / d + np.eye(d)
    return (np.linalg.cholesky(whole) if factor else whole)[np.tril_indices(d)].astype(np.float32)


def add_outer_packed(r):
    n, d = sizes(r, 9, 24)
    return Output(_triangle(r, d)), r.standard_normal((n, d)).astype(np.float32), np.float32(-0.5)


def _embeddings(r, n: int, d: int) -> np.ndarray:
    return unit32(r.standard_normal((n, d)))


def add_products(r):
    n, d = sizes(r, 9, 24)
    return Output(r.integers(-1000, 1000, d * (d + 1) // 2, np.int32)), _embeddings(r, n, d)


def add_rounded(r):
    n, d = sizes(r, 9, 24)
    labels = r.integers(0, 3, n, np.int32)
    return Output(r.integers(-1000, 1000, (3, d), np.int32)), _embeddings(r, n, d), labels


def cholesky_packed(r):
    (d,) = sizes(r, 24)
    return (Output(_triangle(r, d)),)


def cholesky_solve_packed(r):
    k, d = sizes(r, 6, 24)
    return Output(r.standard_normal((k, d)).astype(np.float32)), _triangle(r, d, factor=True)


def inverse_diagonal_packed(r):
    (d,) = sizes(r, 24)
    return fresh(d), _triangle(r, d, factor=True)


INT8_CASES = cases_in(globals())
