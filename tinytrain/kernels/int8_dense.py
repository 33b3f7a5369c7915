"""Forward kernels of int8 programs: products, sums and means of codes.

A code q stands for the value ``scale * (q - zero)``. Weights are int8 (n, k) from -127 to 127: those of an
output channel lie side by side. Sums are int32, so every processor computes the same codes.
"""

import numpy as np

from tinytrain.kernels.int8_blocks import product_block, takes_blocks, takes_dots
from tinytrain.kernels.int8_codes import as_code, rescaled
from tinytrain.kernels.jit import inlined, kernel
from tinytrain.kernels.vectors import move_bytes, shifted_sum

LOWEST, HIGHEST = np.int32(-128), np.int32(127)
_eight, _sixteen = product_block(), product_block(dots=True)


@inlined
def _product(y, x, w, b, factor, shift, zero):
    """Blocks of channels, of which the last ones overlap.

    One by one on processors without, and where there are too few for them, or too many inputs.
    """
    (m, size), n = x.shape, w.shape[0]
    if m < 4 or n < 8 or not takes_blocks(size):
        for i in range(m):
            for j in range(n):
                total = b[j]
                for k in range(size):
                    total = np.int32(total + np.int32(x[i, k]) * np.int32(w[j, k]))
                y[i, j] = as_code(rescaled(total, factor[j], shift[j]), zero)
        return
    arrays = y, x, w, b, factor, shift
    if takes_dots() and x.itemsize == 1 and n >= 16 and size % 4 == 0:
        for c in range(0, n, 16):
            _sixteen(arrays, (m, size, n), min(c, n - 16), zero)
    else:
        for c in range(0, n, 8):
            _eight(arrays, (m, size, n), min(c, n - 8), zero)


@kernel
def product_codes(y, x, w, b, factor, shift, zero):
    """y (m, n) int8 from codes x (m, k) int8 and weights w (n, k) int8; b, factor, shift (n,) int32."""
    _product(y, x, w, b, factor, shift, zero)


@kernel
def product_wide(y, x, w, b, factor, shift, zero):
    """As `product_codes`, of int16 codes x (m, k), those of an image."""
    _product(y, x, w, b, factor, shift, zero)


@kernel
def add_codes(y, x, skip, x_factor, skip_factor, shift, x_zero, skip_zero, zero):
    """The codes y (m,) int8 of sums of two values, of codes x and skip (m,) int8; y may be either.

    Both factors are below 2**20, so 32 bits are enough, and vectors hold twice as many as of 64.
    """
    first, second, by = np.int32(x_factor), np.int32(skip_factor), np.int32(shift)
    start = np.int32((1 << (shift - 1)) - x_zero * x_factor - skip_zero * skip_factor)
    for i in range(y.shape[0]):
        total = shifted_sum(start, x[i], first, skip[i], second, by)
        y[i] = np.int8(min(max(np.int32(total + np.int32(zero)), LOWEST), HIGHEST))


@kernel
def pool_codes(y, x, scale, zero):
    """Means y (n, c) float32 of the values of codes x (n, p, c); `scale` is that of a code divided by p."""
    offset = x.shape[1] * zero
    for n in range(x.shape[0]):
        for c in range(x.shape[2]):
            total = np.int32(0)
            for i in range(x.shape[1]):
                total += x[n, i, c]
            y[n, c] = scale * np.float32(total - offset)


@kernel
def copy_codes(y, x):
    """y (m,) int8 = x (m,) int8, which may overlap y on either side."""
    move_bytes(y, x)


@kernel
def gather_codes(y, x, columns):
    """y (m, k) = x (m, n)[:, columns], int8; `columns` (k,) int32."""
    for i in range(y.shape[0]):
        out, row = y[i], x[i]
        for k in range(columns.shape[0]):
            out[k] = row[columns[k]]
