"""Depthwise convolution: forward, gradient of the input, gradient of the weight.

x is (n, height, width, channels), w is (kernel * kernel, channels), padding is (kernel - 1) // 2
left and right; `top` is the padding above the first row of x, so that a band of rows of a
larger picture can be computed by itself.
"""

import numpy as np

from tinytrain.kernels.jit import kernel

ZERO, SIX, HUGE = np.float32(0), np.float32(6), np.float32(3.4e38)


@kernel
def _add_taps(y, x, x_first, x_step, w, w_first, w_step, count):
    """y[c] += sum over taps of x[x_first + t * x_step, c] * w[w_first + t * w_step, c].

    Several taps at a time, so that y is loaded and stored once for them.
    """
    channels = y.shape[0]
    t = 0
    while t + 5 <= count:
        x0, w0 = x[x_first + t * x_step], w[w_first + t * w_step]
        x1, w1 = x[x_first + (t + 1) * x_step], w[w_first + (t + 1) * w_step]
        x2, w2 = x[x_first + (t + 2) * x_step], w[w_first + (t + 2) * w_step]
        x3, w3 = x[x_first + (t + 3) * x_step], w[w_first + (t + 3) * w_step]
        x4, w4 = x[x_first + (t + 4) * x_step], w[w_first + (t + 4) * w_step]
        for c in range(channels):
            y[c] += x0[c] * w0[c] + x1[c] * w1[c] + x2[c] * w2[c] + x3[c] * w3[c] + x4[c] * w4[c]
        t += 5
    while t + 3 <= count:
        x0, w0 = x[x_first + t * x_step], w[w_first + t * w_step]
        x1, w1 = x[x_first + (t + 1) * x_step], w[w_first + (t + 1) * w_step]
        x2, w2 = x[x_first + (t + 2) * x_step], w[w_first + (t + 2) * w_step]
        for c in range(channels):
            y[c] += x0[c] * w0[c] + x1[c] * w1[c] + x2[c] * w2[c]
        t += 3
    if t + 2 <= count:
        x0, w0 = x[x_first + t * x_step], w[w_first + t * w_step]
        x1, w1 = x[x_first + (t + 1) * x_step], w[w_first + (t + 1) * w_step]
        for c in range(channels):
            y[c] += x0[c] * w0[c] + x1[c] * w1[c]
        t += 2
    if t < count:
        x0, w0 = x[x_first + t * x_step], w[w_first + t * w_step]
        for c in range(channels):
            y[c] += x0[c] * w0[c]


@kernel
def _forward_pixel(y, x, w, b, size, stride, top, i, j):
    """One output pixel y (channels,) of one picture x (height, width, channels), borders respected."""
    height, width, channels = x.shape
    pad = (size - 1) // 2
    for c in range(channels):
        y[c] = b[c]
    first = max(0, pad - j * stride)
    count = min(size, width + pad - j * stride) - first
    for row in range(max(0, top - i * stride), min(size, height + top - i * stride)):
        _add_taps(y, x[i * stride - top + row], j * stride - pad + first, 1, w, row * size + first, 1, count)


@kernel
def _forward_row_3x3(y, x, w, b, first, last, stride, low, high):
    """Output pixels [first, last) of one row from the three full input rows x, in one pass."""
    width, channels = x.shape[1], x.shape[2]
    xf, yf, wf = x.reshape(-1), y.reshape(-1), w.reshape(-1)
    # Unsigned offsets: a signed one makes numba test each index for wrap-around.
    row, c1 = np.uint64(width * channels), np.uint64(channels)
    c2 = c1 + c1
    c3, c4, c5 = c2 + c1, c2 + c2, c2 + c2 + c1
    c6, c7, c8 = c3 + c3, c3 + c4, c4 + c4
    for j in range(first, last):
        start, out = np.uint64((j * stride - 1) * channels), np.uint64(j * channels)
        for c in range(c1):
            u = start + c
            total = b[c] + xf[u] * wf[c] + xf[u + c1] * wf[c1 + c] + xf[u + c2] * wf[c2 + c]
            u += row
            total += xf[u] * wf[c3 + c] + xf[u + c1] * wf[c4 + c] + xf[u + c2] * wf[c5 + c]
            u += row
            total += xf[u] * wf[c6 + c] + xf[u + c1] * wf[c7 + c] + xf[u + c2] * wf[c8 + c]
            yf[out + c] = min(max(total, low), high)


@kernel
def depthwise_forward(y, x, w, b, size, stride, top, relu6):
    """y (n, out height, out width, channels) = conv(x) + b, then ReLU6 if `relu6`."""
    height, width, channels = x.shape[1], x.shape[2], x.shape[3]
    low, high = (ZERO, SIX) if relu6 else (-HUGE, HUGE)
    inner_first = (1 + stride - 1) // stride
    inner_last = max(inner_first, (width - 3 + 1) // stride + 1)
    for n in range(y.shape[0]):
        for i in range(y.shape[1]):
            above = i * stride - top
            first, last = 0, 0
            if size == 3 and above >= 0 and above + 3 <= height:
                first, last = inner_first, inner_last
                _forward_row_3x3(y[n, i], x[n, above : above + 3], w, b, first, last, stride, low, high)
            for j in range(y.shape[2]):
                if first <= j < last:
                    continue
                pixel = y[n, i, j]
                _forward_pixel(pixel, x[n], w, b, size, stride, top, i, j)
                if relu6:
                    for c in range(channels):
                        pixel[c] = min(max(pixel[c], ZERO), SIX)


@kernel
def depthwise_grad_input(gx, g, w, size, stride):
    """gx (n, height, width, channels): gradient of the input from g (n, out height, out width, channels)."""
    pad = (size - 1) // 2
    out_height, out_width, channels = g.shape[1], g.shape[2], g.shape[3]
    for n in range(gx.shape[0]):
        for i in range(gx.shape[1]):
            top = max(0, -((size - 1 - i - pad) // stride))
            bottom = min(out_height - 1, (i + pad) // stride)
            for j in range(gx.shape[2]):
                pixel = gx[n, i, j]
                for c in range(channels):
                    pixel[c] = ZERO
                left = max(0, -((size - 1 - j - pad) // stride))
                count = min(out_width - 1, (j + pad) // stride) - left + 1
                for o in range(top, bottom + 1):
                    tap = (i + pad - o * stride) * size + j + pad - left * stride
                    _add_taps(pixel, g[n, o], left, 1, w, tap, -stride, count)


@kernel
def depthwise_grad_weight(gw, x, g, size, stride):
    """gw (size * size, channels) += gradient of the weight, summed over pictures and positions."""
    pad = (size - 1) // 2
    height, width = x.shape[1], x.shape[2]
    for n in range(g.shape[0]):
        for i in range(g.shape[1]):
            for dy in range(max(0, pad - i * stride), min(size, height + pad - i * stride)):
                row = x[n, i * stride + dy - pad]
                for dx in range(size):
                    first = max(0, -((dx - pad) // stride))
                    count = min(g.shape[2] - 1, (width - 1 + pad - dx) // stride) - first + 1
                    if count > 0:
                        tap = gw[dy * size + dx]
                        _add_taps(tap, row, first * stride + dx - pad, stride, g[n, i], first, 1, count)
