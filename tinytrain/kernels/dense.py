"""What surrounds matrix products: the rows of an image, bias, ReLU6 and its mask, columns.

Matrices are (rows, channels); a row is one position of one image.
"""

import numpy as np

from tinytrain.kernels.activation import pack
from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import kernel

ZERO, ONE, SIX = np.float32(0), np.float32(1), np.float32(6)
BELOW_SIX = np.nextafter(SIX, ZERO)


@kernel
def enter(y, image, first, side, rotated, mean, scale):
    """y (some rows, some columns, channels): numbers of the image rows from `first` on, with padding.

    `image` is (height, width, channels), uint8 or float32, read turned by 180 degrees if it is to be
    `rotated`. A value v enters as ``(v - mean) * scale``; `side` columns before the first one, and what else
    lies outside, as 0. `mean` and `scale` (width * channels,) are those of the numbers of a row.
    """
    height, width, channels = image.shape
    c1, pixels = np.uint64(channels), image.reshape(-1)
    begin, count = np.uint64(side) * c1, np.uint64(max(0, min(width, y.shape[1] - side)))
    for i in range(y.shape[0]):
        r, row = first + i, y[i].reshape(-1)
        for k in range(np.uint64(row.shape[0])):
            row[k] = ZERO
        if not 0 <= r < height:
            continue
        if rotated:
            last = np.uint64((height - r) * width - 1) * c1
            for p in range(count):
                k = p * c1
                for d in range(c1):
                    row[begin + k + d] = (np.float32(pixels[last - k + d]) - mean[k + d]) * scale[k + d]
            continue
        place = np.uint64(r * width) * c1
        for k in range(count * c1):
            row[begin + k] = (np.float32(pixels[place + k]) - mean[k]) * scale[k]


@kernel
def add_bias(y, b):
    """y (m, n) += b (n,)."""
    for i in range(y.shape[0]):
        row = y[i]
        for c in range(row.shape[0]):
            row[c] += b[c]


@kernel
def add_bias_relu6(y, b):
    """y (m, n) = min(max(y + b, 0), 6)."""
    for i in range(y.shape[0]):
        row = y[i]
        for c in range(row.shape[0]):
            row[c] = min(max(row[c] + b[c], ZERO), SIX)


@kernel
def add_bias_residual(y, b, skip):
    """y (m, n) += b (n,) + skip (m, n)."""
    for i in range(y.shape[0]):
        row, other = y[i], skip[i]
        for c in range(row.shape[0]):
            row[c] += b[c] + other[c]


@kernel
def pack_mask(bits, y):
    """bits (ceil(m / 8),) uint8: bit k of byte i is 1 if 0 < y[k * len(bits) + i] < 6, for y (m,)."""
    pack(bits, y, ZERO, BELOW_SIX)


@kernel
def apply_mask(g, bits):
    """Set g (m,) to 0 at the positions whose bit of `pack_mask` is 0."""
    size = bits.shape[0]
    for k in range(8):
        part = g[k * size : min((k + 1) * size, g.shape[0])]
        bit = np.uint8(1 << k)
        for i in range(part.shape[0]):
            value = part[i]  # read in any case, so that the loop has no branch
            part[i] = value if np.uint8(bits[i] & bit) else ZERO


@kernel
def accumulate(total, x):
    """total (m,) += x (m,)."""
    for i in range(total.shape[0]):
        total[i] += x[i]


@kernel
def gather_columns(y, x, columns):
    """y (m, k) = x (m, n)[:, columns]; `columns` (k,) int32."""
    for i in range(y.shape[0]):
        out, row = y[i], x[i]
        for k in range(columns.shape[0]):
            out[k] = row[columns[k]]


@kernel
def scatter_block(y, rows, columns, x):
    """y (m, n)[rows][:, columns] = x (j, k); `rows` (j,) and `columns` (k,) int32."""
    for i in range(rows.shape[0]):
        out, row = y[rows[i]], x[i]
        for k in range(columns.shape[0]):
            out[columns[k]] = row[k]


@kernel
def add_column_sums(total, x):
    """total (n,) += sum of x (m, n) over its rows, four rows at a time to load `total` less often."""
    fours = x.shape[0] // 4 * 4
    for i in range(0, fours, 4):
        r0, r1, r2, r3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for c in range(total.shape[0]):
            total[c] += (r0[c] + r1[c]) + (r2[c] + r3[c])
    for i in range(fours, x.shape[0]):
        row = x[i]
        for c in range(total.shape[0]):
            total[c] += row[c]


@kernel
def pool(y, x):
    """y (n, channels) = mean of x (n, positions, channels) over positions."""
    inverse = ONE / np.float32(x.shape[1])
    for n in range(x.shape[0]):
        out = y[n]
        for c in range(out.shape[0]):
            out[c] = ZERO
        for i in range(x.shape[1]):
            row = x[n, i]
            for c in range(out.shape[0]):
                out[c] += row[c]
        for c in range(out.shape[0]):
            out[c] *= inverse


@kernel
def pool_grad(gx, g):
    """gx (n, positions, channels) = g (n, channels) / positions."""
    inverse = ONE / np.float32(gx.shape[1])
    for n in range(gx.shape[0]):
        row = g[n]
        for i in range(gx.shape[1]):
            out = gx[n, i]
            for c in range(row.shape[0]):
                out[c] = row[c] * inverse


@kernel
def add_fisher(total, dots, a, g):
    """total (channels,) += 0.5 * (sum over positions of a * g)^2 for one image; a, g (positions, channels).

    Fisher information per channel, TinyTrain: ``Delta_o = 1/(2N) sum_n (sum_d a_nd g_nd)^2``;
    the caller divides by N. `dots` (channels,) is overwritten.
    """
    for c in range(dots.shape[0]):
        dots[c] = ZERO
    for i in range(a.shape[0]):
        left, right = a[i], g[i]
        for c in range(dots.shape[0]):
            dots[c] = fused(left[c], right[c], dots[c])
    for c in range(dots.shape[0]):
        total[c] = fused(np.float32(0.5) * dots[c], dots[c], total[c])


@kernel
def copy(y, x):
    """y (m,) = x (m,), in ascending order: x may overlap y from above."""
    for i in range(y.shape[0]):
        y[i] = x[i]
