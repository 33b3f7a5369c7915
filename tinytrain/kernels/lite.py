"""What a lite residual module has beside matrix products: its pooling, grouped convolution, interpolation.

x is (n, height, width, channels), the padding of a convolution (kernel - 1) // 2 on every side. Weights of
a grouped convolution are (kernel * kernel * channels / groups, output channels): row (tap, channel within
the group), each column one output channel, which reads the channels of its group. Its inner loops run along
the output channels of one group, often no more than four or eight; where they can, they take four input
channels at once. Arrays are flat there and offsets unsigned, as in `depthwise`.
"""

import numpy as np

from tinytrain.kernels.depthwise import met
from tinytrain.kernels.jit import inlined, kernel

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
ONE_U, TWO_U, THREE_U = np.uint64(1), np.uint64(2), np.uint64(3)


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


@inlined
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
    n, height, width, cin = x.shape
    down, across, cout = y.shape[1:]
    reads, writes, pad = cin // groups, np.uint64(cout // groups), (size - 1) // 2
    yf, xf, wf, line = y.reshape(-1), x.reshape(-1), w.reshape(-1), np.uint64(cout)
    for k in range(yf.shape[0]):
        yf[k] = ZERO
    for tap in range(size * size):
        top, bottom = met(tap // size, stride, pad, down, height)
        left, right = met(tap % size, stride, pad, across, width)
        for k in range(n * (bottom - top)):
            i = top + k % (bottom - top)
            row = k // (bottom - top) * height + i * stride + tap // size - pad
            for j in range(left, right):
                x0 = np.uint64((row * width + j * stride + tap % size - pad) * cin)
                y0 = np.uint64(((k // (bottom - top) * down + i) * across + j) * cout)
                for g in range(groups):
                    xg, yg = x0 + np.uint64(g * reads), y0 + np.uint64(g) * writes
                    wg = np.uint64(tap * reads) * line + np.uint64(g) * writes
                    for c in range(0, reads - 3, 4):
                        v, w0 = xg + np.uint64(c), wg + np.uint64(c) * line
                        a, b, d, e = xf[v], xf[v + ONE_U], xf[v + TWO_U], xf[v + THREE_U]
                        w1, w2 = w0 + line, w0 + line + line
                        w3 = w2 + line
                        for o in range(writes):
                            yf[yg + o] += a * wf[w0 + o] + b * wf[w1 + o] + d * wf[w2 + o] + e * wf[w3 + o]
                    for c in range(reads - reads % 4, reads):
                        value, w0 = xf[xg + np.uint64(c)], wg + np.uint64(c) * line
                        for o in range(writes):
                            yf[yg + o] += value * wf[w0 + o]


@kernel
def grouped_grad_input(gx, g, w, size, stride, groups):
    """gx (n, height, width, cin): gradient of x from the gradient g (n, out height, out width, cout)."""
    n, height, width, cin = gx.shape
    down, across, cout = g.shape[1:]
    reads, writes, pad = cin // groups, np.uint64(cout // groups), (size - 1) // 2
    xf, gf, wf, line = gx.reshape(-1), g.reshape(-1), w.reshape(-1), np.uint64(cout)
    for k in range(xf.shape[0]):
        xf[k] = ZERO
    for tap in range(size * size):
        top, bottom = met(tap // size, stride, pad, down, height)
        left, right = met(tap % size, stride, pad, across, width)
        for k in range(n * (bottom - top)):
            i = top + k % (bottom - top)
            row = k // (bottom - top) * height + i * stride + tap // size - pad
            for j in range(left, right):
                x0 = np.uint64((row * width + j * stride + tap % size - pad) * cin)
                g0 = np.uint64(((k // (bottom - top) * down + i) * across + j) * cout)
                for part in range(groups):
                    xg, gg = x0 + np.uint64(part * reads), g0 + np.uint64(part) * writes
                    wg = np.uint64(tap * reads) * line + np.uint64(part) * writes
                    for c in range(0, reads - 3, 4):
                        v, w0 = xg + np.uint64(c), wg + np.uint64(c) * line
                        w1, w2 = w0 + line, w0 + line + line
                        w3 = w2 + line
                        a = b = d = e = ZERO
                        for o in range(writes):
                            value = gf[gg + o]
                            a += value * wf[w0 + o]
                            b += value * wf[w1 + o]
                            d += value * wf[w2 + o]
                            e += value * wf[w3 + o]
                        xf[v] += a
                        xf[v + ONE_U] += b
                        xf[v + TWO_U] += d
                        xf[v + THREE_U] += e
                    for c in range(reads - reads % 4, reads):
                        w0, total = wg + np.uint64(c) * line, ZERO
                        for o in range(writes):
                            total += gf[gg + o] * wf[w0 + o]
                        xf[xg + np.uint64(c)] += total


@kernel
def grouped_grad_weight(gw, x, g, size, stride, groups):
    """gw (fan_in, cout) += gradient of the weights."""
    n, height, width, cin = x.shape
    down, across, cout = g.shape[1:]
    reads, writes, pad = cin // groups, np.uint64(cout // groups), (size - 1) // 2
    wf, xf, gf, line = gw.reshape(-1), x.reshape(-1), g.reshape(-1), np.uint64(cout)
    for tap in range(size * size):
        top, bottom = met(tap // size, stride, pad, down, height)
        left, right = met(tap % size, stride, pad, across, width)
        for k in range(n * (bottom - top)):
            i = top + k % (bottom - top)
            row = k // (bottom - top) * height + i * stride + tap // size - pad
            for j in range(left, right):
                x0 = np.uint64((row * width + j * stride + tap % size - pad) * cin)
                g0 = np.uint64(((k // (bottom - top) * down + i) * across + j) * cout)
                for part in range(groups):
                    xg, gg = x0 + np.uint64(part * reads), g0 + np.uint64(part) * writes
                    wg = np.uint64(tap * reads) * line + np.uint64(part) * writes
                    for c in range(reads):
                        value, w0 = xf[xg + np.uint64(c)], wg + np.uint64(c) * line
                        for o in range(writes):
                            wf[w0 + o] += value * gf[gg + o]
