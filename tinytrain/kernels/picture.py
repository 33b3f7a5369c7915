"""What happens to single pictures and single feature maps: augmentation and 8-bit storage."""

import numpy as np

from tinytrain.kernels.jit import kernel

ZERO, ONE, HALF, TOP = np.float32(0), np.float32(1), np.float32(0.5), np.float32(255)


@kernel
def augment(y, x, flip, down, right, brightness, saturation, contrast, fill):
    """y = augmented copy of x, both uint8 (height, width, 3).

    Colour first: + `brightness`, then distance of each value to its pixel's mean times `saturation`,
    then distance to the picture's mean times `contrast`. Then mirrored if `flip`, and moved by
    (`down`, `right`) pixels, the uncovered border set to `fill`.
    """
    height, width = x.shape[0], x.shape[1]
    total = 0
    for i in range(height):
        for j in range(width):
            total += int(x[i, j, 0]) + int(x[i, j, 1]) + int(x[i, j, 2])
    mean = np.float32(total) / np.float32(3 * height * width) + brightness
    third = ONE / np.float32(3)
    for i in range(height):
        r = i - down
        for j in range(width):
            q = j - right
            if not (0 <= r < height and 0 <= q < width):
                y[i, j, 0] = y[i, j, 1] = y[i, j, 2] = fill
                continue
            if flip:
                q = width - 1 - q
            a, b, c = np.float32(x[r, q, 0]), np.float32(x[r, q, 1]), np.float32(x[r, q, 2])
            grey = (a + b + c) * third
            centre = (grey + brightness - mean) * contrast + mean + HALF
            k = saturation * contrast
            y[i, j, 0] = np.uint8(min(max((a - grey) * k + centre, ZERO), TOP))
            y[i, j, 1] = np.uint8(min(max((b - grey) * k + centre, ZERO), TOP))
            y[i, j, 2] = np.uint8(min(max((c - grey) * k + centre, ZERO), TOP))


@kernel
def quantize(codes, span, x):
    """codes (m,) uint8 and span (2,) = (lowest, step) of x (m,): x is about lowest + step * code."""
    low, high = x[0], x[0]
    for i in range(x.shape[0]):
        low = min(low, x[i])
        high = max(high, x[i])
    step = (high - low) / TOP
    span[0], span[1] = low, step
    scale = ONE / step if step > ZERO else ZERO
    for i in range(x.shape[0]):
        codes[i] = np.uint8((x[i] - low) * scale + HALF)


@kernel
def dequantize(x, codes, span):
    """x (m,) = lowest + step * code."""
    low, step = span[0], span[1]
    for i in range(x.shape[0]):
        x[i] = low + step * np.float32(codes[i])
