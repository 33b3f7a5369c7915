"""Kernels for single images and feature maps: augmentation and 8-bit storage."""

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import inlined, kernel

ZERO, ONE, HALF, TOP = np.float32(0), np.float32(1), np.float32(0.5), np.float32(255)


@inlined
def recolour(out, at, a, b, c, shift, mean, spread, contrast):
    """Write pixel (a, b, c) at `at`: distance to its own mean times `spread`, to `mean` times `contrast`."""
    grey = (a + b + c) * (ONE / np.float32(3))
    centre = fused(grey + shift - mean, contrast, mean) + HALF
    out[at] = np.uint8(min(max(fused(a - grey, spread, centre), ZERO), TOP))
    out[at + 1] = np.uint8(min(max(fused(b - grey, spread, centre), ZERO), TOP))
    out[at + 2] = np.uint8(min(max(fused(c - grey, spread, centre), ZERO), TOP))


@inlined
def mirror(pixels):
    """Reverse the order of RGB values (3 n,), in place."""
    n = pixels.shape[0] // 3
    for j in range(n // 2):
        p, q = 3 * j, 3 * (n - 1 - j)
        for c in range(3):
            pixels[p + c], pixels[q + c] = pixels[q + c], pixels[p + c]


@inlined
def bilinear(x, p, o, far, low):
    """Bilinear interpolation: `far` of the way from x[p] to x[p + 3], `low` of the way to the pair at `o`."""
    corner = far * low
    near = fused(ONE - far - low + corner, np.float32(x[p]), (far - corner) * np.float32(x[p + np.uintp(3)]))
    return fused(corner, np.float32(x[o + np.uintp(3)]), fused(low - corner, np.float32(x[o]), near))


@kernel
def augment(y, x, flip, down, right, cosine, sine, brightness, saturation, contrast, fill):
    """y = augmented copy of x, both uint8 (height, width, 3).

    In this order: rotate about the centre and scale (`Augmentation`; bilinear); add `brightness`; multiply
    the distance of each value to its pixel's mean by `saturation`, and to the mean of x by `contrast`; mirror
    if `flip`; move by (`down`, `right`) pixels. Uncovered pixels become `fill`.
    """
    height, width = x.shape[0], x.shape[1]
    values, written = x.reshape(-1), y.reshape(-1)
    total = 0
    for n in range(values.shape[0]):
        total += int(values[n])
    mean, spread = np.float32(total) / np.float32(3 * height * width) + brightness, saturation * contrast
    if cosine == ONE and sine == ZERO:
        # Columns [first, last) of y are those of x from `start` on. Loops over contiguous values vectorise.
        first, last = max(right, 0), max(min(width, width + right), 0)
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
                a, b, c = (
                    np.float32(source[3 * j]),
                    np.float32(source[3 * j + 1]),
                    np.float32(source[3 * j + 2]),
                )
                recolour(target, 3 * j, a, b, c, brightness, mean, spread, contrast)
            if flip:
                mirror(target)
        return
    side = -ONE if flip else ONE
    bottom, end = np.float32(height - 1), np.float32(width - 1)
    for i in range(height):
        row = written[3 * i * width : 3 * (i + 1) * width]
        # The position of the first pixel in x; the step from pixel to pixel is constant.
        v, h = fused(-HALF, bottom, np.float32(i - down)), -side * fused(HALF, end, np.float32(right))
        first_r = fused(HALF, bottom, fused(cosine, v, -sine * h))
        first_q = fused(HALF, end, fused(sine, v, cosine * h))
        for j in range(width):
            r = fused(-side * sine, np.float32(j), first_r)
            q = fused(side * cosine, np.float32(j), first_q)
            if not (r >= ZERO and q >= ZERO and r < bottom and q < end):
                row[3 * j] = row[3 * j + 1] = row[3 * j + 2] = fill
                continue
            top, left = np.int32(r), np.int32(q)
            low, far = r - np.float32(top), q - np.float32(left)
            p = np.uintp(3 * (top * width + left))  # unsigned: no test for a negative index
            o = p + np.uintp(3 * width)
            a = bilinear(values, p, o, far, low)
            b = bilinear(values, p + np.uintp(1), o + np.uintp(1), far, low)
            c = bilinear(values, p + np.uintp(2), o + np.uintp(2), far, low)
            recolour(row, 3 * j, a, b, c, brightness, mean, spread, contrast)


@kernel
def quantize(codes, span, x):
    """codes (m,) uint8 and span (2,) = (lowest, step) of x (m,), so that x is about lowest + step * code."""
    low, high = x[0], x[0]
    for i in range(x.shape[0]):
        low = min(low, x[i])
        high = max(high, x[i])
    step = (high - low) / TOP
    span[0], span[1] = low, step
    scale = ONE / step if step > ZERO else ZERO
    for i in range(x.shape[0]):
        codes[i] = np.uint8(fused(x[i] - low, scale, HALF))


@kernel
def dequantize(x, codes, span):
    """x (m,) = lowest + step * code."""
    low, step = span[0], span[1]
    for i in range(x.shape[0]):
        x[i] = fused(step, np.float32(codes[i]), low)
