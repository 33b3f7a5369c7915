"""Max pooling over windows of 3 x 3 with stride 2 and padding 1, and feature maps times one number a channel.

x and gx are (n, height, width, channels); y and g of a pooling are (n, (height + 1) // 2, (width + 1) // 2,
channels). The padding is never the largest.
"""

import numpy as np

from tinytrain.kernels.jit import kernel

ZERO, NONE = np.float32(0), np.float32(-np.inf)


@kernel
def max_pool(y, x):
    """y = the largest of every window of x."""
    height, width = x.shape[1], x.shape[2]
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                out = y[n, i, j]
                for c in range(out.shape[0]):
                    out[c] = NONE
                for r in range(max(0, 2 * i - 1), min(height, 2 * i + 2)):
                    for q in range(max(0, 2 * j - 1), min(width, 2 * j + 2)):
                        row = x[n, r, q]
                        for c in range(out.shape[0]):
                            out[c] = max(out[c], row[c])


@kernel
def max_taps(taps, x, y):
    """taps (shape of y) uint8 = the place in its window of 3 x 3, row by row, of the first that is y."""
    height, width = x.shape[1], x.shape[2]
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                found, top = taps[n, i, j], y[n, i, j]
                for c in range(found.shape[0]):
                    found[c] = 4  # the middle, which is always inside
                for back in range(9):
                    tap = 8 - back
                    r, q = 2 * i - 1 + tap // 3, 2 * j - 1 + tap % 3
                    if 0 <= r < height and 0 <= q < width:
                        row = x[n, r, q]
                        for c in range(found.shape[0]):
                            found[c] = np.uint8(tap) if row[c] == top[c] else found[c]


@kernel
def max_pool_grad(gx, g, taps):
    """gx = gradient of x of `max_pool`, from that of its y and from `max_taps`."""
    flat = gx.reshape(-1)
    for i in range(flat.shape[0]):
        flat[i] = ZERO
    height, width = gx.shape[1], gx.shape[2]
    for n in range(g.shape[0]):
        for i in range(g.shape[1]):
            for j in range(g.shape[2]):
                row, found = g[n, i, j], taps[n, i, j]
                for tap in range(9):
                    r, q = 2 * i - 1 + tap // 3, 2 * j - 1 + tap % 3
                    if 0 <= r < height and 0 <= q < width:
                        out = gx[n, r, q]
                        for c in range(row.shape[0]):
                            out[c] += row[c] if found[c] == tap else ZERO


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
