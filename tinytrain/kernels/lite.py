"""What a lite residual module has beside matrix products: its pooling, grouped convolution, interpolation.

x is (n, height, width, channels), the padding of a convolution (kernel - 1) // 2 on every side. Weights of
a grouped convolution are (kernel * kernel * channels / groups, output channels): row (tap, channel within
the group), each column one output channel, which reads the channels of its group. Planes are small, so
plain loops do; the inner one runs along output channels.
"""

import numpy as np

from tinytrain.kernels.jit import kernel

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)


@kernel
def pool2(y, x):
    """y (n, max(1, height // 2), max(1, width // 2), channels) = mean of x over windows of 2 x 2 pixels.

    A side of 1 has windows of 1; of an odd side the last pixel is left out.
    """
    down, across = min(2, x.shape[1]), min(2, x.shape[2])
    share = ONE / np.float32(down * across)
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                out = y[n, i, j]
                for c in range(out.shape[0]):
                    out[c] = ZERO
                for k in range(down * across):
                    row = x[n, i * down + k // across, j * across + k % across]
                    for c in range(out.shape[0]):
                        out[c] += row[c]
                for c in range(out.shape[0]):
                    out[c] *= share


@kernel
def pool2_grad(gx, g):
    """gx (n, height, width, channels) += gradient of the input of `pool2` from that of its output."""
    down, across = min(2, gx.shape[1]), min(2, gx.shape[2])
    share = ONE / np.float32(down * across)
    for n in range(g.shape[0]):
        for i in range(g.shape[1]):
            for j in range(g.shape[2]):
                row = g[n, i, j]
                for k in range(down * across):
                    out = gx[n, i * down + k // across, j * across + k % across]
                    for c in range(out.shape[0]):
                        out[c] += row[c] * share


@kernel
def _source(k, count, size):
    """Where output k of `count` lies among `size` inputs: (lower neighbour, upper one, share of the upper).

    Pixels are areas and their values stand at the centres; beyond the outermost centres values stay.
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
                    out[k] += wa * a[k] + wb * b[k] + wc * c[k] + wd * d[k]


@kernel
def upsample_grad(gx, g):
    """gx (n, height, width, channels): gradient of what `upsample_add` interpolates, from that of its sum."""
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
                    share = (v if corner > 1 else ONE - v) * (u if corner % 2 else ONE - u)
                    for k in range(row.shape[0]):
                        out[k] += share * row[k]


@kernel
def grouped_forward(y, x, w, size, stride, groups):
    """y (n, out height, out width, cout) = conv(x)."""
    reads, writes, pad = x.shape[3] // groups, y.shape[3] // groups, (size - 1) // 2
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                pixel = y[n, i, j]
                for o in range(pixel.shape[0]):
                    pixel[o] = ZERO
                for tap in range(size * size):
                    r, q = i * stride + tap // size - pad, j * stride + tap % size - pad
                    if r < 0 or r >= x.shape[1] or q < 0 or q >= x.shape[2]:
                        continue
                    source = x[n, r, q]
                    for c in range(source.shape[0]):
                        first = c // reads * writes
                        out, row = pixel[first : first + writes], w[tap * reads + c % reads]
                        weights, value = row[first : first + writes], source[c]
                        for o in range(writes):
                            out[o] += value * weights[o]


@kernel
def grouped_grad_input(gx, g, w, size, stride, groups):
    """gx (n, height, width, cin): gradient of x from the gradient g (n, out height, out width, cout)."""
    reads, writes, pad = gx.shape[3] // groups, g.shape[3] // groups, (size - 1) // 2
    for n in range(gx.shape[0]):
        flat = gx[n].reshape(-1)
        for k in range(flat.shape[0]):
            flat[k] = ZERO
        for i in range(g.shape[1]):
            for j in range(g.shape[2]):
                pixel = g[n, i, j]
                for tap in range(size * size):
                    r, q = i * stride + tap // size - pad, j * stride + tap % size - pad
                    if r < 0 or r >= gx.shape[1] or q < 0 or q >= gx.shape[2]:
                        continue
                    target = gx[n, r, q]
                    for c in range(target.shape[0]):
                        first = c // reads * writes
                        part, row = pixel[first : first + writes], w[tap * reads + c % reads]
                        weights, total = row[first : first + writes], ZERO
                        for o in range(writes):
                            total += part[o] * weights[o]
                        target[c] += total


@kernel
def grouped_grad_weight(gw, x, g, size, stride, groups):
    """gw (fan_in, cout) += gradient of the weights."""
    reads, writes, pad = x.shape[3] // groups, g.shape[3] // groups, (size - 1) // 2
    for n in range(x.shape[0]):
        for i in range(g.shape[1]):
            for j in range(g.shape[2]):
                pixel = g[n, i, j]
                for tap in range(size * size):
                    r, q = i * stride + tap // size - pad, j * stride + tap % size - pad
                    if r < 0 or r >= x.shape[1] or q < 0 or q >= x.shape[2]:
                        continue
                    source = x[n, r, q]
                    for c in range(source.shape[0]):
                        first = c // reads * writes
                        part, row = pixel[first : first + writes], gw[tap * reads + c % reads]
                        out, value = row[first : first + writes], source[c]
                        for o in range(writes):
                            out[o] += value * part[o]
