"""Depthwise convolution of int8 codes."""

import numpy as np

from tinytrain.kernels.int8_rescale import as_code, rescaled
from tinytrain.kernels.jit import kernel


@kernel
def depthwise_codes(y, x, w, b, factor, shift, size, stride, top, fill, zero):
    """y (n, out height, out width, c) int8 of codes x (n, height, width, c) and weights w (size * size, c).

    b, factor, shift (c,) int32. `top` is the padding above x; pixels outside of x have the code `fill`.
    """
    n, height, width, channels = x.shape
    side = (size - 1) // 2
    for k in range(n):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                for c in range(channels):
                    total = np.int64(b[c])
                    for t in range(size * size):
                        r, q = i * stride + t // size - top, j * stride + t % size - side
                        inside = 0 <= r < height and 0 <= q < width
                        total += np.int64(x[k, r, q, c] if inside else fill) * w[t, c]
                    y[k, i, j, c] = as_code(rescaled(total, factor[c], shift[c]), zero)
