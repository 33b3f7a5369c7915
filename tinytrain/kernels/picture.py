"""What happens to single pictures and single feature maps: augmentation and 8-bit storage."""

import numpy as np

from tinytrain.kernels.jit import inlined, kernel

ZERO, ONE, HALF, TOP = np.float32(0), np.float32(1), np.float32(0.5), np.float32(255)


@inlined
def mirror(pixels):
    """Reverse the order of RGB values (3 n,), in place."""
    n = pixels.shape[0] // 3
    for j in range(n // 2):
        p, q = 3 * j, 3 * (n - 1 - j)
        for c in range(3):
            pixels[p + c], pixels[q + c] = pixels[q + c], pixels[p + c]


@kernel
def augment(y, x, flip, down, right, brightness, saturation, contrast, fill):
    """y = augmented copy of x, both uint8 (height, width, 3).

    Colour first: + `brightness`, then distance of each value to its pixel's mean times `saturation`,
    then distance to the picture's mean times `contrast`. Then mirrored if `flip`, and moved by
    (`down`, `right`) pixels, the uncovered border set to `fill`.
    """
    height, width = x.shape[0], x.shape[1]
    values, written = x.reshape(-1), y.reshape(-1)
    total = 0
    for n in range(values.shape[0]):
        total += int(values[n])
    mean = np.float32(total) / np.float32(3 * height * width) + brightness
    third, k = ONE / np.float32(3), saturation * contrast
    # Columns [first, last) of y show those of x from `start` on. Only loops over contiguous values vectorise.
    first, last = min(max(right, 0), width), max(min(width, width + right), 0)
    start = width - last + right if flip else first - right
    for i in range(height):
        row, r = written[3 * i * width : 3 * (i + 1) * width], i - down
        if not 0 <= r < height:
            row[:] = fill
            continue
        row[: 3 * first] = fill
        row[3 * last :] = fill
        begin = 3 * (r * width + start)
        source, target = values[begin : begin + 3 * (last - first)], row[3 * first : 3 * last]
        for j in range(target.shape[0] // 3):
            a, b, c = np.float32(source[3 * j]), np.float32(source[3 * j + 1]), np.float32(source[3 * j + 2])
            grey = (a + b + c) * third
            centre = (grey + brightness - mean) * contrast + mean + HALF
            target[3 * j] = np.uint8(np.int32(min(max((a - grey) * k + centre, ZERO), TOP)))
            target[3 * j + 1] = np.uint8(np.int32(min(max((b - grey) * k + centre, ZERO), TOP)))
            target[3 * j + 2] = np.uint8(np.int32(min(max((c - grey) * k + centre, ZERO), TOP)))
        if flip:
            mirror(target)


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
