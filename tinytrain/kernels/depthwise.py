"""Depthwise convolution: forward, gradient of the input, gradient of the weight.

x is (n, height, width, channels), w is (kernel * kernel, channels), padding is (kernel - 1) // 2
left and right; `top` is the padding above the first row of x, so that a band of rows of a
larger picture can be computed by itself.
"""

import numpy as np

from tinytrain.kernels.jit import kernel

ZERO, SIX, HUGE = np.float32(0), np.float32(6), np.float32(3.4e38)


@kernel
def _add_taps(yf, y, xf, x, x_step, wf, w, w_step, count, channels):
    """yf[y + c] += sum over taps t of xf[x + t * x_step + c] * wf[w + t * w_step + c].

    Flat arrays and unsigned offsets (a signed one makes numba test each index for wrap-around; a
    negative step wraps as it should). Several taps at a time, so that y is loaded and stored once.
    """
    t = count
    while t >= 7:
        x1, w1 = x + x_step, w + w_step
        x2, w2 = x1 + x_step, w1 + w_step
        x3, w3 = x2 + x_step, w2 + w_step
        x4, w4 = x3 + x_step, w3 + w_step
        x5, w5 = x4 + x_step, w4 + w_step
        x6, w6 = x5 + x_step, w5 + w_step
        for c in range(channels):
            low = xf[x + c] * wf[w + c] + xf[x1 + c] * wf[w1 + c] + xf[x2 + c] * wf[w2 + c]
            high = xf[x3 + c] * wf[w3 + c] + xf[x4 + c] * wf[w4 + c] + xf[x5 + c] * wf[w5 + c]
            yf[y + c] += low + high + xf[x6 + c] * wf[w6 + c]
        x, w = x6 + x_step, w6 + w_step
        t -= 7
    while t >= 4:
        x1, w1 = x + x_step, w + w_step
        x2, w2 = x1 + x_step, w1 + w_step
        x3, w3 = x2 + x_step, w2 + w_step
        for c in range(channels):
            low = xf[x + c] * wf[w + c] + xf[x1 + c] * wf[w1 + c]
            yf[y + c] += low + xf[x2 + c] * wf[w2 + c] + xf[x3 + c] * wf[w3 + c]
        x, w = x3 + x_step, w3 + w_step
        t -= 4
    if t >= 2:
        x1, w1 = x + x_step, w + w_step
        for c in range(channels):
            yf[y + c] += xf[x + c] * wf[w + c] + xf[x1 + c] * wf[w1 + c]
        x, w = x1 + x_step, w1 + w_step
        t -= 2
    if t >= 1:
        for c in range(channels):
            yf[y + c] += xf[x + c] * wf[w + c]


@kernel
def _forward_pixel(yf, y, xf, wf, b, shape, size, stride, top, i, j):
    """Output pixel (i, j) at offset y of yf, from one picture xf of `shape` (height, width, channels)."""
    height, width, channels = shape
    pad = (size - 1) // 2
    c1, y = np.uint64(channels), np.uint64(y)
    for c in range(c1):
        yf[y + c] = b[c]
    first = max(0, pad - j * stride)
    count = min(size, width + pad - j * stride) - first
    for row in range(max(0, top - i * stride), min(size, height + top - i * stride)):
        x = np.uint64(((i * stride - top + row) * width + j * stride - pad + first) * channels)
        _add_taps(yf, y, xf, x, c1, wf, np.uint64((row * size + first) * channels), c1, count, c1)


@kernel
def _row_3x3(y, x, w, b, first, last, stride, low, high):
    """Output pixels [first, last) of one row from the three full input rows x, in one pass."""
    width, channels = x.shape[1], x.shape[2]
    xf, yf, wf = x.reshape(-1), y.reshape(-1), w.reshape(-1)
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
                _row_3x3(y[n, i], x[n, above : above + 3], w, b, first, last, stride, low, high)
            yf, xf, wf = y[n, i].reshape(-1), x[n].reshape(-1), w.reshape(-1)
            for j in range(y.shape[2]):
                if first <= j < last:
                    continue
                _forward_pixel(yf, j * channels, xf, wf, b, x.shape[1:], size, stride, top, i, j)
                if relu6:
                    pixel = y[n, i, j]
                    for c in range(channels):
                        pixel[c] = min(max(pixel[c], ZERO), SIX)


@kernel
def _grad_input_pixel(gxf, x, gf, vf, shape, size, stride, i, j):
    """Pixel (i, j) of the input gradient at offset x of gxf, from gf of `shape` (out height, out width,
    channels) and the reversed taps vf."""
    height, width, channels = shape
    pad = (size - 1) // 2
    c1, far, x = np.uint64(channels), np.uint64(stride * channels), np.uint64(x)
    for c in range(c1):
        gxf[x + c] = ZERO
    left = max(0, -((size - 1 - j - pad) // stride))
    count = min(width - 1, (j + pad) // stride) - left + 1
    top = max(0, -((size - 1 - i - pad) // stride))
    for o in range(top, min(height - 1, (i + pad) // stride) + 1):
        tap = size * size - 1 - ((i + pad - o * stride) * size + j + pad - left * stride)
        g = np.uint64((o * width + left) * channels)
        _add_taps(gxf, x, gf, g, c1, vf, np.uint64(tap * channels), far, count, c1)


@kernel
def _scatter_3x3(gx, g, w):
    """Input gradient of one picture, 3x3 with stride 2: each g pixel adds to the nine inputs it came from."""
    height, width, channels = gx.shape
    gxf, gf, wf = gx.reshape(-1), g.reshape(-1), w.reshape(-1)
    for k in range(gxf.shape[0]):
        gxf[k] = ZERO
    c1 = np.uint64(channels)
    c2 = c1 + c1
    for i in range(g.shape[0]):
        for dy in range(max(0, 1 - 2 * i), min(3, height + 1 - 2 * i)):
            row, tap = (2 * i + dy - 1) * width, np.uint64(3 * dy * channels)
            tap1, tap2 = tap + c1, tap + c2
            for j in range(g.shape[1]):
                centre = np.uint64((row + 2 * j) * channels)
                value = np.uint64((i * g.shape[1] + j) * channels)
                for c in range(c1):
                    gxf[centre + c] += gf[value + c] * wf[tap1 + c]
                if j > 0:
                    left = centre - c1
                    for c in range(c1):
                        gxf[left + c] += gf[value + c] * wf[tap + c]
                if 2 * j + 1 < width:
                    right = centre + c1
                    for c in range(c1):
                        gxf[right + c] += gf[value + c] * wf[tap2 + c]


@kernel
def depthwise_grad_input(gx, scratch, g, w, size, stride):
    """gx (n, height, width, channels): gradient of the input from g (n, out height, out width, channels).

    `scratch` (size * size + 1, channels) receives the taps in reverse order, then zeros: with stride 1
    the gradient is a forward pass over g with these taps and no bias.
    """
    channels = g.shape[3]
    for t in range(size * size):
        line, tap = scratch[t], w[size * size - 1 - t]
        for c in range(channels):
            line[c] = tap[c]
    zero = scratch[size * size]
    for c in range(channels):
        zero[c] = ZERO
    if stride == 1:
        # No literals here: numba would compile the forward pass once more for them.
        relu6 = stride != 1
        depthwise_forward(gx, g, scratch[: size * size], zero, size, stride, (size - 1) // 2, relu6)
        return
    vf = scratch.reshape(-1)
    for n in range(gx.shape[0]):
        if size == 3 and stride == 2:
            _scatter_3x3(gx[n], g[n], w)
            continue
        gf = g[n].reshape(-1)
        for i in range(gx.shape[1]):
            gxf = gx[n, i].reshape(-1)
            for j in range(gx.shape[2]):
                _grad_input_pixel(gxf, j * channels, gf, vf, g.shape[1:], size, stride, i, j)


@kernel
def depthwise_grad_weight(gw, x, g, size, stride):
    """gw (size * size, channels) += gradient of the weight, summed over pictures and positions."""
    pad = (size - 1) // 2
    height, width, channels = x.shape[1], x.shape[2], x.shape[3]
    c1, far = np.uint64(channels), np.uint64(stride * channels)
    gwf = gw.reshape(-1)
    for n in range(g.shape[0]):
        xf = x[n].reshape(-1)
        for i in range(g.shape[1]):
            gf = g[n, i].reshape(-1)
            for dy in range(max(0, pad - i * stride), min(size, height + pad - i * stride)):
                for dx in range(size):
                    first = max(0, -((dx - pad) // stride))
                    count = min(g.shape[2] - 1, (width - 1 + pad - dx) // stride) - first + 1
                    if count > 0:
                        column = first * stride + dx - pad
                        start = np.uint64(((i * stride + dy - pad) * width + column) * channels)
                        tap = np.uint64((dy * size + dx) * channels)
                        _add_taps(gwf, tap, xf, start, far, gf, np.uint64(first * channels), c1, count, c1)
