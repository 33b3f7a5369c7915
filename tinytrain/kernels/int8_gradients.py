"""Gradients through layers of int8 programs: float32, of values, not of codes."""

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.int8_gradient_tiles import gradient_products
from tinytrain.kernels.jit import inlined, kernel

ZERO = np.float32(0)


@inlined
def add_to_row(row, x, k, g, scale, zero):
    """row (j,) += the values of codes x (m, .)[:, k] times g (m, j).

    Four rows of g at a time, so that `row` is loaded and stored less often.
    """
    fours = x.shape[0] // 4 * 4
    for i in range(0, fours, 4):
        f0, f1 = scale * np.float32(x[i, k] - zero), scale * np.float32(x[i + 1, k] - zero)
        f2, f3 = scale * np.float32(x[i + 2, k] - zero), scale * np.float32(x[i + 3, k] - zero)
        g0, g1, g2, g3 = g[i], g[i + 1], g[i + 2], g[i + 3]
        for j in range(row.shape[0]):
            low = fused(f1, g1[j], fused(f0, g0[j], row[j]))
            row[j] = fused(f3, g3[j], fused(f2, g2[j], low))
    for i in range(fours, x.shape[0]):
        factor, line = scale * np.float32(x[i, k] - zero), g[i]
        for j in range(row.shape[0]):
            row[j] = fused(factor, line[j], row[j])


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
    for k in range(gw.shape[0]):
        add_to_row(gw[k], x, k, g, scale, zero)


@kernel
def widen_codes(y, x, scale, zero):
    """Values y (m, c) float32 of codes x (m, c) int8; `scale` (c,) float32."""
    for i in range(y.shape[0]):
        out, row = y[i], x[i]
        for c in range(out.shape[0]):
            out[c] = np.float32(np.int32(row[c] - zero)) * scale[c]
