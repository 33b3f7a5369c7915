"""Depthwise convolution: gradient of the weight. Arrays as in `depthwise`."""

import numpy as np

from tinytrain.kernels.jit import inlined, kernel


@inlined
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
