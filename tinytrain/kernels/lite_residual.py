"""Kernels of a lite residual module beside matrix products: pooling, patches, interpolation.

x is (n, height, width, channels). Kernels that copy patches use flat arrays and unsigned offsets, as in
`depthwise`.
"""

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import inlined, kernel

ZERO, QUARTER, HALF, ONE = np.float32(0), np.float32(0.25), np.float32(0.5), np.float32(1)


@kernel
def pool2(y, x, first):
    """y (n, max(1, height // 2), max(1, width // 2), channels) = mean of x over windows of 2 x 2 pixels.

    Reads the channels of x from `first` on. If a side of x is 1, its windows have 1 pixel along it, which
    is read twice. If a side is odd, its last pixel is ignored.
    """
    down, across, end = min(2, x.shape[1]), min(2, x.shape[2]), first + y.shape[3]
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            top, bottom = i * down, i * down + down - 1
            for j in range(y.shape[2]):
                left, right, out = j * across, j * across + across - 1, y[n, i, j]
                a, b = x[n, top, left, first:end], x[n, top, right, first:end]
                c, d = x[n, bottom, left, first:end], x[n, bottom, right, first:end]
                for k in range(out.shape[0]):
                    out[k] = QUARTER * ((a[k] + b[k]) + (c[k] + d[k]))


@kernel
def pool2_grad(gx, g, first):
    """gx (n, height, width, all channels) += gradient of the input of `pool2`; g is that of its output.

    The channels of g belong to those of gx from `first` on.
    """
    down, across, end = min(2, gx.shape[1]), min(2, gx.shape[2]), first + g.shape[3]
    for n in range(g.shape[0]):
        for i in range(g.shape[1]):
            for j in range(g.shape[2]):
                row = g[n, i, j]
                for corner in range(4):
                    line, column = i * down + corner // 2 * (down - 1), j * across + corner % 2 * (across - 1)
                    out = gx[n, line, column, first:end]
                    for k in range(row.shape[0]):
                        out[k] += QUARTER * row[k]


@inlined
def _source(k, count, size):
    """Neighbours of output k of `count` among `size` inputs: (lower, upper, weight of the upper).

    The values are those of pixel centres; beyond the outermost centres the value is constant.
    """
    at = (np.float32(k) + HALF) * np.float32(size) / np.float32(count) - HALF
    at = min(max(at, ZERO), np.float32(size - 1))
    low = int(at)
    return low, min(low + 1, size - 1), at - np.float32(low)


@kernel
def upsample_add(y, x):
    """y (n, out height, out width, channels) += x (n, height, width, channels), bilinearly interpolated."""
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            top, bottom, v = _source(i, y.shape[1], x.shape[1])
            for j in range(y.shape[2]):
                left, right, u = _source(j, y.shape[2], x.shape[2])
                a, b, c, d = x[n, top, left], x[n, top, right], x[n, bottom, left], x[n, bottom, right]
                wa, wb, wc, wd = (ONE - v) * (ONE - u), (ONE - v) * u, v * (ONE - u), v * u
                out = y[n, i, j]
                for k in range(out.shape[0]):
                    upper = fused(wa, a[k], wb * b[k])
                    out[k] += fused(wd, d[k], fused(wc, c[k], upper))


@kernel
def upsample_grad(gx, g):
    """gx (n, height, width, channels): gradient of the input of `upsample_add`, from that of its output g."""
    for n in range(gx.shape[0]):
        flat = gx[n].reshape(-1)
        for k in range(flat.shape[0]):
            flat[k] = ZERO
        for i in range(g.shape[1]):
            top, bottom, v = _source(i, g.shape[1], gx.shape[1])
            for j in range(g.shape[2]):
                left, right, u = _source(j, g.shape[2], gx.shape[2])
                row = g[n, i, j]
                for corner in range(4):
                    out = gx[n, bottom if corner > 1 else top, right if corner % 2 else left]
                    weight = (v if corner > 1 else ONE - v) * (u if corner % 2 else ONE - u)
                    for k in range(row.shape[0]):
                        out[k] = fused(weight, row[k], out[k])


@inlined
def _taps_inside(row, column, size, height, width):
    """Taps [first, last) of a filter row inside the plane; its first tap lies at (`row`, `column`)."""
    if not 0 <= row < height:
        return 0, 0
    return max(0, -column), min(size, width - column)


@inlined
def take_patches(y, x, rows, size, stride, top, side, first, lines, outside):
    """As `unfold_plane`, with `outside` for the padding; x and y have any dtype."""
    height, width, channels = x.shape[1:]
    xf, yf = x.reshape(-1), y.reshape(-1)
    for k in range(y.shape[0]):
        n, i = (first + k) // lines, (first + k) % lines
        for j in range(y.shape[1]):
            for dy in range(rows):
                row, column = i * stride + dy - top, j * stride - side
                low, high = _taps_inside(row, column, size, height, width)
                out = np.uint64(((k * y.shape[1] + j) * rows + dy) * size * channels)
                inp = np.uint64(((n * height + row) * width + column) * channels)
                for c in range(np.uint64(low * channels)):
                    yf[out + c] = outside
                for c in range(np.uint64(low * channels), np.uint64(high * channels)):
                    yf[out + c] = xf[inp + c]
                for c in range(np.uint64(high * channels), np.uint64(size * channels)):
                    yf[out + c] = outside


@kernel
def unfold_plane(y, x, rows, size, stride, top, side, first, lines):
    """y (some rows, out width, rows * size * channels): patches of x (n, height, width, channels).

    They have `rows` rows and `size` columns; the padding is `top` rows and `side` columns before the first.
    Each image has `lines` output rows, numbered through all images; y begins with row `first`.
    """
    take_patches(y, x, rows, size, stride, top, side, first, lines, ZERO)


@kernel
def add_patches(gx, g, rows, size, stride, top, side, first, lines):
    """gx (n, height, width, channels) += gradient of x of `unfold_plane`, from the gradient g of its y.

    The first output row of an image sets gx of this image to 0 before.
    """
    height, width, channels = gx.shape[1:]
    xf, gf = gx.reshape(-1), g.reshape(-1)
    plane = np.uint64(height * width * channels)
    for k in range(g.shape[0]):
        n, i = (first + k) // lines, (first + k) % lines
        if i == 0:
            for c in range(plane):
                xf[np.uint64(n) * plane + c] = ZERO
        for j in range(g.shape[1]):
            for dy in range(rows):
                row, column = i * stride + dy - top, j * stride - side
                low, high = _taps_inside(row, column, size, height, width)
                inp = np.uint64(((k * g.shape[1] + j) * rows + dy) * size * channels)
                out = np.uint64(((n * height + row) * width + column) * channels)
                for c in range(np.uint64(low * channels), np.uint64(high * channels)):
                    xf[out + c] += gf[inp + c]
