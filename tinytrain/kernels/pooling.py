"""Max pooling, feature maps side by side, and feature maps times one number a channel.

x and gx are (n, height, width, channels); y and g of a pooling are (n, rows, columns, channels), each the
largest of a window of `high` rows and `wide` columns. The windows lie `down` rows and `across` columns apart,
the first `top` rows and `side` columns outside of x. What is outside is never the largest.
"""

import numpy as np

from tinytrain.kernels.jit import kernel

ZERO, NONE = np.float32(0), np.float32(-np.inf)


@kernel
def max_pool(y, x, high, wide, down, across, top, side):
    """y = the largest of every window of x."""
    height, width = x.shape[1], x.shape[2]
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            above = i * down - top
            for j in range(y.shape[2]):
                out, left = y[n, i, j], j * across - side
                for c in range(out.shape[0]):
                    out[c] = NONE
                for r in range(max(0, above), min(height, above + high)):
                    for q in range(max(0, left), min(width, left + wide)):
                        row = x[n, r, q]
                        for c in range(out.shape[0]):
                            out[c] = max(out[c], row[c])


@kernel
def max_taps(taps, x, y, high, wide, down, across, top, side):
    """taps (shape of y) uint8 = the place in its window, row by row, of the first that is y."""
    height, width = x.shape[1], x.shape[2]
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                found, largest = taps[n, i, j], y[n, i, j]
                for c in range(found.shape[0]):
                    found[c] = top * wide + side  # inside for the first window; none for a NaN
                for back in range(high * wide):
                    tap = high * wide - 1 - back
                    r, q = i * down - top + tap // wide, j * across - side + tap % wide
                    if 0 <= r < height and 0 <= q < width:
                        row = x[n, r, q]
                        for c in range(found.shape[0]):
                            found[c] = np.uint8(tap) if row[c] == largest[c] else found[c]


@kernel
def max_pool_grad(gx, g, taps, high, wide, down, across, top, side):
    """gx = gradient of x of `max_pool`, from that of its y and from `max_taps`."""
    flat = gx.reshape(-1)
    for i in range(flat.shape[0]):
        flat[i] = ZERO
    height, width = gx.shape[1], gx.shape[2]
    for n in range(g.shape[0]):
        for i in range(g.shape[1]):
            for j in range(g.shape[2]):
                row, found = g[n, i, j], taps[n, i, j]
                for tap in range(high * wide):
                    r, q = i * down - top + tap // wide, j * across - side + tap % wide
                    if 0 <= r < height and 0 <= q < width:
                        out = gx[n, r, q]
                        for c in range(row.shape[0]):
                            out[c] += row[c] if found[c] == tap else ZERO


@kernel
def put_columns(y, x, first):
    """Columns of y (m, all) from `first` on = x (m, some)."""
    for i in range(x.shape[0]):
        out, row = y[i, first : first + x.shape[1]], x[i]
        for c in range(row.shape[0]):
            out[c] = row[c]


@kernel
def take_columns(y, x, first):
    """y (m, some) = the columns of x (m, all) from `first` on."""
    for i in range(y.shape[0]):
        out, row = y[i], x[i, first : first + y.shape[1]]
        for c in range(out.shape[0]):
            out[c] = row[c]


@kernel
def scale_channels(y, x, s):
    """y (n, positions, channels) = x times s (n, channels); y may be x."""
    for n in range(y.shape[0]):
        factors = s[n]
        for i in range(y.shape[1]):
            out, row = y[n, i], x[n, i]
            for c in range(factors.shape[0]):
                out[c] = row[c] * factors[c]


@kernel
def scale_channels_grad(gs, g, x):
    """gs (n, channels) = gradient of s of `scale_channels`: the sum over positions of g times x."""
    for n in range(gs.shape[0]):
        sums = gs[n]
        for c in range(sums.shape[0]):
            sums[c] = ZERO
        for i in range(g.shape[1]):
            left, right = g[n, i], x[n, i]
            for c in range(sums.shape[0]):
                sums[c] += left[c] * right[c]
