"""Depthwise convolution of int8 codes."""

import numpy as np

from tinytrain.kernels.depthwise_rows import key_of
from tinytrain.kernels.int8_depthwise_blocks import FILTERS, depthwise_block
from tinytrain.kernels.int8_depthwise_pixels import depthwise_pixel
from tinytrain.kernels.int8_rescale import as_code, rescaled
from tinytrain.kernels.jit import inlined, kernel

KEYS = tuple(key_of(*shape) for shape in FILTERS)
_key_of = inlined(key_of)


@inlined
def _pixel(arrays, places, sizes, shape, fill, zero):
    """One pixel of few channels, one by one."""
    y, x, w, b, factor, shift = arrays
    (out, image, _), (height, width, channels), (row, column, size) = places, sizes, shape
    for c in range(channels):
        total = np.int64(b[c])
        for t in range(size * size):
            r, q = row + t // size, column + t % size
            code = np.int64(fill)
            if 0 <= r < height and 0 <= q < width:
                code = np.int64(x[image + (r * width + q) * channels + c])
            total += code * np.int64(w[t * channels + c])
        y[out + c] = as_code(rescaled(total, factor[c], shift[c]), zero)


@kernel
def depthwise_codes(y, x, w, b, factor, shift, size, stride, top, fill, zero):
    """y (n, out height, out width, c) int8 of codes x (n, height, width, c) and weights w (size * size, c).

    b, factor, shift (c,) int32. `top` is the padding above x; pixels outside of x have the code `fill`.
    """
    n, height, width, channels = x.shape
    down, across = y.shape[1], y.shape[2]
    side = (size - 1) // 2
    arrays = y.reshape(-1), x.reshape(-1), w.reshape(-1), b, factor, shift
    sizes = height, width, channels
    key = _key_of(size, stride)
    blocks = key in KEYS and across >= 4 and channels >= 16
    for k in range(n):
        image = k * height * width * channels
        if blocks:
            for c in range(0, channels, 16):
                places = k * down * across * channels, image, min(c, channels - 16)
                whole = height, width, channels, down, across
                depthwise_block(arrays, places, whole, (key, top), fill, zero)
            continue
        for i in range(down):
            for j in range(across):
                out = ((k * down + i) * across + j) * channels
                shape = i * stride - top, j * stride - side, size
                if channels < 16:
                    _pixel(arrays, (out, image, 0), sizes, shape, fill, zero)
                    continue
                for c in range(0, channels, 16):
                    depthwise_pixel(arrays, (out, image, min(c, channels - 16)), sizes, shape, fill, zero)
