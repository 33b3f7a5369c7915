"""Gradient of the weights of a depthwise layer of an int8 program, straight from the codes of its input."""

import numpy as np

from tinytrain.kernels.depthwise_weight import met
from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import inlined, kernel


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
