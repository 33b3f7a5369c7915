"""Gradient of the input of a depthwise layer of stride 1 in the place of that of its output.

Channels do not mix, so those of 16 channels are copied and the copy is read. Beside the gradients that takes
the bytes of 16 channels alone.
"""

import numpy as np
from numba import carray

from tinytrain.kernels.depthwise import place_of_sums
from tinytrain.kernels.fused import fused
from tinytrain.kernels.int8_columns import widen_some
from tinytrain.kernels.jit import kernel

CHANNELS = 16  # at a time


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
