"""Forward kernels of int8 programs: products, patches of an image, sums and means of codes.

A code q stands for the value ``scale * (q - zero)``. Weights are int8 (n, k) from -127 to 127: those of an
output channel lie side by side. Sums are int32, so every processor computes the same codes.
"""

import numpy as np

from tinytrain.kernels.int8_rescale import as_code, rescaled
from tinytrain.kernels.int8_tiles import product_strip
from tinytrain.kernels.jit import inlined, kernel


@kernel
def unfold_codes(y, image, table, size, stride, first, rotated):
    """y (rows, out width, size * size * c) int16: patches of the output rows from `first` on.

    `image` (height, width, c) uint8, turned by 180 degrees if `rotated`; `table` (256, c) int16 has the code
    of every pixel value. Padding is code 0.
    """
    height, width, channels = image.shape
    pad = (size - 1) // 2
    for i in range(y.shape[0]):
        for dy in range(size):
            r = (first + i) * stride + dy - pad
            for j in range(y.shape[1]):
                patch = y[i, j]
                for dx in range(size):
                    q, k = j * stride + dx - pad, (dy * size + dx) * channels
                    inside = 0 <= r < height and 0 <= q < width
                    for c in range(channels):
                        if not inside:
                            patch[k + c] = np.int16(0)
                        elif rotated:
                            patch[k + c] = table[image[height - 1 - r, width - 1 - q, c], c]
                        else:
                            patch[k + c] = table[image[r, q, c], c]


@inlined
def _product(y, x, w, b, factor, shift, zero):
    """Tiles of two rows and four channels; the last ones overlap. Too few of either: one by one."""
    (m, size), n = x.shape, w.shape[0]
    if m < 2 or n < 4:
        for i in range(m):
            for j in range(n):
                total = b[j]
                for k in range(size):
                    total = np.int32(total + np.int32(x[i, k]) * np.int32(w[j, k]))
                y[i, j] = as_code(rescaled(total, factor[j], shift[j]), zero)
        return
    arrays = y.reshape(-1), x.reshape(-1), w.reshape(-1), b, factor, shift
    for c in range(0, n, 4):
        product_strip(arrays, (m, size, n), min(c, n - 4), zero)


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
    """The codes y (m,) of sums of two values; y may be x or skip. Both factors are below 2**20."""
    for i in range(y.shape[0]):
        total = (x[i] - x_zero) * x_factor + (skip[i] - skip_zero) * skip_factor
        y[i] = as_code((total + (1 << (shift - 1))) >> shift, zero)


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
    """y (m,) = x (m,), which may overlap y on either side."""
    if y.ctypes.data <= x.ctypes.data:
        for i in range(y.shape[0]):
            y[i] = x[i]
    else:
        for i in range(y.shape[0] - 1, -1, -1):
            y[i] = x[i]


@kernel
def gather_codes(y, x, columns):
    """y (m, k) = x (m, n)[:, columns], int8; `columns` (k,) int32."""
    for i in range(y.shape[0]):
        out, row = y[i], x[i]
        for k in range(columns.shape[0]):
            out[k] = row[columns[k]]
