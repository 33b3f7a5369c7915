"""Gradients of depthwise layers of int8 programs.

That of the input takes the weights of 16 channels at a time as float32: `depthwise_grad_input` is faster and
needs all of them. Channels do not mix. So in the place of the gradient of the output, those of 16 channels
are copied and the copy is read. That of the weights reads the codes of the input.
"""

import numpy as np
from numba import carray

from tinytrain.kernels.depthwise import place_of_sums
from tinytrain.kernels.depthwise_weight import met
from tinytrain.kernels.fused import fused
from tinytrain.kernels.int8_gradients import widen_some
from tinytrain.kernels.jit import inlined, kernel

CHANNELS = 16  # at a time


@kernel
def depthwise_grad_input_codes(gx, work, g, w, scale, size, stride):
    """gx (n, height, width, c) from g (n, out height, out width, c), w (taps, c) int8 and `scale` (c,).

    `work` (taps, 16) takes the weights of some channels. Taps of a pixel are added row by row, left to right.
    """
    n, height, width, channels = gx.shape
    down, across, pad = g.shape[1], g.shape[2], (size - 1) // 2
    sums = carray(place_of_sums(), (64,))
    for first in range(0, channels, CHANNELS):
        count = min(CHANNELS, channels - first)
        widen_some(work, w, scale, first, count)
        for k in range(n):
            for i in range(height):
                for j in range(width):
                    for c in range(CHANNELS):
                        sums[c] = np.float32(0)
                    for a in range(size):
                        p = i + pad - a
                        if p < 0 or p % stride or p // stride >= down:
                            continue
                        for b in range(size):
                            q = j + pad - b
                            if q < 0 or q % stride or q // stride >= across:
                                continue
                            row, tap = g[k, p // stride, q // stride, first:], work[a * size + b]
                            for c in range(count):
                                sums[c] = fused(row[c], tap[c], sums[c])
                    for c in range(count):
                        gx[k, i, j, first + c] = sums[c]


@kernel
def depthwise_grad_in_place(g, work, w, scale, size):
    """g (n, height, width, c) float32 becomes the gradient of the input; w (taps, c) int8, `scale` (c,).

    `work` (taps + height * width, 16) takes weights and gradients of some channels. Taps of a pixel are added
    row by row, left to right, as in `depthwise_grad_input_codes`.
    """
    n, height, width, channels = g.shape
    taps, pad = size * size, (size - 1) // 2
    sums = carray(place_of_sums(), (64,))
    for first in range(0, channels, CHANNELS):
        count = min(CHANNELS, channels - first)
        widen_some(work, w, scale, first, count)
        for tap in range(taps):
            for c in range(count, CHANNELS):
                work[tap, c] = np.float32(0)
        for k in range(n):
            for i in range(height):
                for j in range(width):
                    row = work[taps + i * width + j]
                    for c in range(count):
                        row[c] = g[k, i, j, first + c]
                    for c in range(count, CHANNELS):
                        row[c] = np.float32(0)
            for i in range(height):
                for j in range(width):
                    for c in range(CHANNELS):
                        sums[c] = np.float32(0)
                    for a in range(max(0, i + pad - height + 1), min(size, i + pad + 1)):
                        for b in range(max(0, j + pad - width + 1), min(size, j + pad + 1)):
                            tap = work[a * size + b]
                            row = work[taps + (i + pad - a) * width + j + pad - b]
                            for c in range(CHANNELS):
                                sums[c] = fused(row[c], tap[c], sums[c])
                    for c in range(count):
                        g[k, i, j, first + c] = sums[c]


@inlined
def _add_tap(row, line, g, where, stride, scale, zero):
    """row (c,) += values of codes line (width, c) times g (across, c), over positions in rising order.

    `where`: the first position, the end, and the column of the input that position 0 reads. Four positions at
    a time, so that `row` is loaded and stored less often.
    """
    first, last, left = where
    fours = first + (last - first) // 4 * 4
    for j in range(first, fours, 4):
        at = left + j * stride
        x0, x1, x2, x3 = line[at], line[at + stride], line[at + 2 * stride], line[at + 3 * stride]
        g0, g1, g2, g3 = g[j], g[j + 1], g[j + 2], g[j + 3]
        for c in range(row.shape[0]):
            f0, f1 = scale * np.float32(np.int32(x0[c] - zero)), scale * np.float32(np.int32(x1[c] - zero))
            f2, f3 = scale * np.float32(np.int32(x2[c] - zero)), scale * np.float32(np.int32(x3[c] - zero))
            row[c] = fused(f3, g3[c], fused(f2, g2[c], fused(f1, g1[c], fused(f0, g0[c], row[c]))))
    for j in range(fours, last):
        codes, gradients = line[left + j * stride], g[j]
        for c in range(row.shape[0]):
            row[c] = fused(scale * np.float32(np.int32(codes[c] - zero)), gradients[c], row[c])


@kernel
def depthwise_grad_weight_codes(gw, x, g, scale, zero, size, stride):
    """gw (size * size, c) float32 += gradient of the weights, from codes x (n, height, width, c) int8.

    g (n, out height, out width, c) float32. Each number adds images, rows and positions in rising order.
    """
    n, height, width, _ = x.shape
    down, across, pad = g.shape[1], g.shape[2], (size - 1) // 2
    for k in range(n):
        for i in range(down):
            for dy in range(max(0, pad - i * stride), min(size, height + pad - i * stride)):
                line = x[k, i * stride + dy - pad]
                for dx in range(size):
                    first, last = met(dx, stride, pad, across, width)
                    _add_tap(gw[dy * size + dx], line, g[k, i], (first, last, dx - pad), stride, scale, zero)
