"""Gradient of the input of a depthwise layer with int8 weights, in little memory.

`depthwise_grad_input` is faster and needs the weights as float32. This one needs those of a few channels.
"""

import numpy as np
from numba import carray

from tinytrain.kernels.depthwise import place_of_sums
from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import kernel

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
        for tap in range(size * size):
            for c in range(count):
                work[tap, c] = np.float32(w[tap, first + c]) * scale[first + c]
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
                            tap = a * size + b
                            if count == CHANNELS:
                                for c in range(CHANNELS):
                                    sums[c] = fused(
                                        g[k, p // stride, q // stride, first + c], work[tap, c], sums[c]
                                    )
                            else:
                                for c in range(count):
                                    sums[c] = fused(
                                        g[k, p // stride, q // stride, first + c], work[tap, c], sums[c]
                                    )
                    for c in range(count):
                        gx[k, i, j, first + c] = sums[c]
