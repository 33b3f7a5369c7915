"""Every kernel in plain numpy: the reference for tests, and the fallback without numba.

Same names, same arguments, same results up to rounding; written to be obviously correct. The functions work
in any floating-point type, so that tests can take finite differences in float64.
"""

import numpy as np

from tinytrain.kernels.dispatch.direct import ADDS, BIAS, CLAMP, SKIP
from tinytrain.kernels.reference_layers import *  # noqa: F403 - they are kernels, too
from tinytrain.kernels.reference_layers import pack, window
from tinytrain.kernels.reference_triangles import *  # noqa: F403


def _padded(x, top, bottom, side):
    return np.pad(x, ((0, 0), (top, bottom), (side, side), (0, 0)))


def depthwise_forward(y, x, w, b, size, stride, top, relu6):
    bottom = max(0, (y.shape[1] - 1) * stride + size - top - x.shape[1])
    padded = _padded(x, top, bottom, (size - 1) // 2)
    y[...] = b
    for tap in range(size * size):
        y += window(padded, tap // size, tap % size, y.shape, stride) * w[tap]
    if relu6:
        np.clip(y, 0, 6, out=y)


def depthwise_grad_input(gx, zeros, g, w, size, stride):
    pad = (size - 1) // 2
    padded = np.zeros_like(_padded(gx, pad, pad, pad))
    for tap in range(size * size):
        window(padded, tap // size, tap % size, g.shape, stride)[...] += g * w[tap]
    gx[...] = padded[:, pad : pad + gx.shape[1], pad : pad + gx.shape[2]]


def depthwise_grad_weight(gw, x, g, size, stride):
    pad = (size - 1) // 2
    padded = _padded(x, pad, pad, pad)
    for tap in range(size * size):
        gw[tap] += (window(padded, tap // size, tap % size, g.shape, stride) * g).sum(axis=(0, 1, 2))


def matmul(y, x, w):
    np.matmul(x.reshape(len(y), len(w)), w, out=y)


def add_matmul(y, x, w):
    y += x.reshape(len(y), len(w)) @ w


def product(y, x, w, b, skip, how):
    (add_matmul if how & ADDS else matmul)(y, x, w)
    if how & BIAS:
        y += b + skip if how & SKIP else b
    if how & CLAMP:
        np.clip(y, 0, 6, out=y)


def enter(y, image, first, side, rotated, mean, scale):
    image = np.rot90(image, 2) if rotated else image
    height, width, channels = image.shape
    y[...] = 0
    for row, r in zip(y[:, side:], range(first, height), strict=False):
        if r >= 0:
            values = (image[r].astype(y.dtype) - mean[:channels]) * scale[:channels]
            row[:width] = values[: len(row)]


def _rows_read(x, lines, width, rows, size, stride, top, side):
    """(n * lines, width, taps * channels): the inputs of x that every output row of all images reads."""
    shape = len(x), lines, width, x.shape[3]
    padded = _padded(x, top, rows, side + size)[:, :, size:]
    taps = [window(padded, t // size, t % size, shape, stride) for t in range(rows * size)]
    return np.concatenate(taps, axis=-1).reshape(-1, width, rows * size * x.shape[3])


def unfold_plane(y, x, rows, size, stride, top, side, first, lines):
    y[...] = _rows_read(x, lines, y.shape[1], rows, size, stride, top, side)[first : first + len(y)]


def add_patches(gx, g, rows, size, stride, top, side, first, lines):
    """By the definition: unfold the indices of the inputs, then sum g by index."""
    indices = np.arange(1, gx.size + 1).reshape(gx.shape)  # 0 is the padding
    read = _rows_read(indices, lines, g.shape[1], rows, size, stride, top, side)[first : first + len(g)]
    gx[-(-first // lines) : -(-(first + len(g)) // lines)] = 0
    sums = np.bincount(read.reshape(-1), g.reshape(-1).astype(np.float64), gx.size + 1)
    gx += sums[1:].reshape(gx.shape).astype(gx.dtype)


def add_bias(y, b):
    y += b


def add_bias_relu6(y, b):
    np.clip(y + b, 0, 6, out=y)


def add_bias_residual(y, b, skip):
    y += b + skip


def pack_mask(bits, y):
    pack(bits, (y > 0) & (y < 6))


def apply_mask(g, bits):
    inside = np.unpackbits(bits[None], axis=0, bitorder="little").reshape(-1)
    g *= inside[: len(g)].astype(g.dtype)


def accumulate(total, x):
    total += x


def gather_columns(y, x, columns):
    y[...] = x[:, columns]


def scatter_block(y, rows, columns, x):
    y[np.ix_(rows, columns)] = x


def add_column_sums(total, x):
    total += x.sum(axis=0)


def pool(y, x):
    y[...] = x.mean(axis=1)


def pool_grad(gx, g):
    gx[...] = g[:, None] / gx.shape[1]


def _windows(x, shape):
    """The pixels of the windows of `pool2`: four, two or one array of `shape`."""
    down, across = min(2, x.shape[1]), min(2, x.shape[2])
    ends = shape[1] * down, shape[2] * across
    return [x[:, i : ends[0] : down, j : ends[1] : across] for i in range(down) for j in range(across)]


def pool2(y, x, first):
    y[...] = np.mean(_windows(x[..., first : first + y.shape[3]], y.shape), axis=0)


def pool2_grad(gx, g, first):
    windows = _windows(gx[..., first : first + g.shape[3]], g.shape)
    for part in windows:
        part += g / len(windows)


def _interpolation(count, size, dtype):
    """(count, size): the weights of the inputs for each output, with values at pixel centres."""
    at = np.clip((np.arange(count) + 0.5) * size / count - 0.5, 0, size - 1)
    low = at.astype(int)
    matrix = np.zeros((count, size), dtype)
    np.add.at(matrix, (np.arange(count), low), 1 - (at - low))
    np.add.at(matrix, (np.arange(count), np.minimum(low + 1, size - 1)), at - low)
    return matrix


def upsample_add(y, x):
    rows, columns = (_interpolation(y.shape[k], x.shape[k], y.dtype) for k in (1, 2))
    y += np.einsum("ip,jq,npqc->nijc", rows, columns, x)


def upsample_grad(gx, g):
    rows, columns = (_interpolation(g.shape[k], gx.shape[k], g.dtype) for k in (1, 2))
    gx[...] = np.einsum("ip,jq,nijc->npqc", rows, columns, g)


def add_fisher(total, dots, a, g):
    dots[...] = (a * g).sum(axis=0)
    total += dots**2 / 2


def _norms(x):
    return np.sqrt((x * x).sum(axis=1, keepdims=True) + 1e-12)


def prototype_loss(loss, residual, cosine, f, labels, p, temperature):
    rows = np.arange(len(f))
    cosine[...] = (f / _norms(f)) @ (p / _norms(p)).T
    logits = temperature * cosine
    logits = logits - logits.max(axis=1, keepdims=True)
    loss[...] = np.log(np.exp(logits).sum(axis=1)) - logits[rows, labels]
    residual[...] = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    residual[rows, labels] -= 1


def entropy(loss, residual, cosine, temperature, weight):
    p = np.exp(temperature * (cosine - cosine.max(axis=1, keepdims=True)))
    p /= p.sum(axis=1, keepdims=True)
    logs = np.log(np.maximum(p, np.finfo(p.dtype).tiny))
    loss[...] = -(p * logs).sum(axis=1)
    residual[...] = -weight * p * (logs + loss[:, None])


def prototype_loss_grad(gf, residual, cosine, f, p, temperature):
    along = (residual * cosine).sum(axis=1, keepdims=True)
    gf[...] = temperature / _norms(f) * (residual @ (p / _norms(p)) - along * f / _norms(f))


def class_sums(sums, counts, f, labels):
    np.add.at(sums, labels, f)
    np.add.at(counts, labels, 1)


def normalize_rows(x):
    x /= _norms(x)


def to_bfloat16(values):
    """uint16 bit patterns of float32 values, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def augment(y, x, flip, down, right, cosine, sine, brightness, saturation, contrast, fill):
    height, width = x.shape[:2]
    middle = np.array([height - 1, width - 1], np.float32) / 2
    v, h = np.indices((height, width), np.float32) - middle[:, None, None]
    v, h = v - down, h - right
    h = -h if flip else h
    r, q = cosine * v - sine * h + middle[0], sine * v + cosine * h + middle[1]
    # Without a rotation no position lies between pixels, so the last row and column are used as well.
    edge = 0 if (cosine, sine) == (1, 0) else 1
    inside = (r >= 0) & (q >= 0) & (r < height - edge) & (q < width - edge)
    top, left = (np.where(inside, np.floor(p), 0).astype(int) for p in (r, q))
    low, far = (r - top)[..., None], (q - left)[..., None]
    padded = np.pad(x, ((0, 1), (0, 1), (0, 0)), "edge").astype(np.float32)
    upper = (1 - far) * padded[top, left] + far * padded[top, left + 1]
    lower = (1 - far) * padded[top + 1, left] + far * padded[top + 1, left + 1]
    values = (1 - low) * upper + low * lower
    grey, mean = values.mean(axis=2, keepdims=True), x.mean(dtype=np.float32) + brightness
    values = (values - grey) * (saturation * contrast) + (grey + brightness - mean) * contrast + mean
    y[...] = np.where(inside[..., None], np.clip(values + 0.5, 0, 255).astype(np.uint8), fill)


def sum_pixels(y, x):
    """y (1,) int64 = the sum of all values of an image."""
    y[0] = x.sum(dtype=np.int64)


def augment_rows(y, x, total, top, *how):
    """Rows of what `augment` makes of an image, from row `top` on; `total` is the sum of its values."""
    whole = np.empty_like(x)
    augment(whole, x, *how)
    y[...] = whole[top : top + len(y)]


def quantize(codes, span, x):
    span[...] = x.min(), (x.max() - x.min()) / 255
    codes[...] = 0 if span[1] == 0 else np.clip((x - span[0]) / span[1] + 0.5, 0, 255)


def dequantize(x, codes, span):
    x[...] = span[0] + span[1] * codes.astype(x.dtype)


def copy(y, x):
    y[...] = x.copy()
