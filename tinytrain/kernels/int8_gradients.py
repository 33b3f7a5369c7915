"""Gradients through layers of int8 programs: float32, of values, not of codes."""

import numpy as np

from tinytrain.kernels.int8_gradient_tiles import gradient_products, weight_products
from tinytrain.kernels.jit import kernel


@kernel
def pack_inside(bits, y):
    """bits (ceil(m / 8),) uint8: whether each code of y (m,) int8 is neither -128 nor 127.

    Bit k of byte i belongs to y[k * len(bits) + i], as in `pack_mask`.
    """
    size = bits.shape[0]
    for i in range(size):
        bits[i] = 0
    for k in range(8):
        part = y[k * size : min((k + 1) * size, y.shape[0])]
        bit = np.uint8(1 << k)
        for i in range(part.shape[0]):
            bits[i] |= bit if part[i] > -128 and part[i] < 127 else np.uint8(0)


@kernel
def grad_input_codes(gx, g, w, scale):
    """gx (m, k) float32 = g (m, n) float32 times the values of w (n, k) int8; `scale` (n,) float32."""
    arrays = gx.reshape(-1), g.reshape(-1), w.reshape(-1), scale
    sizes = gx.shape[0], g.shape[1], gx.shape[1], w.shape[1]
    gradient_products(arrays, sizes, (0, 0, True))


@kernel
def grad_weight_codes(gw, x, g, scale, zero):
    """gw (k, j) float32 += values of codes x (m, k) int8, transposed, times g (m, j) float32."""
    sizes = x.shape[0], gw.shape[0], gw.shape[1], gw.shape[1]
    weight_products((gw.reshape(-1), x.reshape(-1), g.reshape(-1)), sizes, scale, zero)


@kernel
def widen_codes(y, x, scale, zero):
    """Values y (m, c) float32 of codes x (m, c) int8; `scale` (c,) float32."""
    for i in range(y.shape[0]):
        out, row = y[i], x[i]
        for c in range(out.shape[0]):
            out[c] = np.float32(np.int32(row[c] - zero)) * scale[c]
