"""Kernels for single images and feature maps: augmentation and 8-bit storage."""

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import copied, inlined, kernel
from tinytrain.kernels.turned import turned_pixels

ZERO, ONE, HALF, TOP = np.float32(0), np.float32(1), np.float32(0.5), np.float32(255)


@inlined
def recolour(out, at, channels, a, b, c, shift, mean, spread, contrast):
    """Write pixel (a, b, c) at `at`: distances to its own mean times `spread`, to `mean` times `contrast`."""
    grey = (a + b + c) * (ONE / np.float32(3))
    centre = fused(grey + shift - mean, contrast, mean) + HALF
    out[at] = np.uint8(min(max(fused(a - grey, spread, centre), ZERO), TOP))
    out[at + channels // 2] = np.uint8(min(max(fused(b - grey, spread, centre), ZERO), TOP))
    out[at + channels - 1] = np.uint8(min(max(fused(c - grey, spread, centre), ZERO), TOP))


@inlined
def mirror(pixels, channels):
    """Reverse the order of pixels, values (channels * n,), in place."""
    n = pixels.shape[0] // channels
    for j in range(n // 2):
        p, q = channels * j, channels * (n - 1 - j)
        for c in range(channels):
            pixels[p + c], pixels[q + c] = pixels[q + c], pixels[p + c]


@inlined
def bilinear(x, p, o, step, far, low):
    """What lies `far` of the way from x[p] to x[p + step], and `low` of the way to the same pair at `o`."""
    corner = far * low
    near = fused(ONE - far - low + corner, np.float32(x[p]), (far - corner) * np.float32(x[p + step]))
    return fused(corner, np.float32(x[o + step]), fused(low - corner, np.float32(x[o]), near))


@inlined
def added_up(x):
    """The sum of all pixels of x, uint8."""
    values = x.reshape(-1)
    total = 0
    for n in range(values.shape[0]):
        total += int(values[n])
    return total


@copied
def augment_pixels(
    y, x, top, total, channels, flip, down, right, cosine, sine, brightness, saturation, contrast, fill
):
    """As `_augment`, of pixels of 3 channels, or of 1, which is then read and written as each of the three.

    The caller writes the number of `channels` as a constant: loops over neighbouring pixels vectorise.
    """
    height, width = x.shape[0], x.shape[1]
    values, written = x.reshape(-1), y.reshape(-1)
    mean, spread = (
        np.float32(total) / np.float32(channels * height * width) + brightness,
        saturation * contrast,
    )
    if cosine == ONE and sine == ZERO:
        # Columns [first, last) of y are those of x from `start` on. Loops over contiguous values vectorise.
        first, last = max(right, 0), max(min(width, width + right), 0)
        start = width - last + right if flip else first - right
        for i in range(y.shape[0]):
            row, r = written[channels * i * width : channels * (i + 1) * width], top + i - down
            if not 0 <= r < height:
                row[:] = fill
                continue
            row[: channels * first] = fill
            row[channels * last :] = fill
            begin = channels * (r * width + start)
            source = values[begin : begin + channels * (last - first)]
            target = row[channels * first : channels * last]
            for j in range(target.shape[0] // channels):
                p = channels * j
                a, b, c = (
                    np.float32(source[p]),
                    np.float32(source[p + channels // 2]),
                    np.float32(source[p + channels - 1]),
                )
                recolour(target, p, channels, a, b, c, brightness, mean, spread, contrast)
            if flip:
                mirror(target, channels)
        return
    side = -ONE if flip else ONE
    bottom, end = np.float32(height - 1), np.float32(width - 1)
    for i in range(y.shape[0]):
        row = written[channels * i * width : channels * (i + 1) * width]
        # Of the first pixel; from each to the next it is the same step in x.
        v, h = fused(-HALF, bottom, np.float32(top + i - down)), -side * fused(HALF, end, np.float32(right))
        first_r = fused(HALF, bottom, fused(cosine, v, -sine * h))
        first_q = fused(HALF, end, fused(sine, v, cosine * h))
        step_r, step_q, done = -side * sine, side * cosine, 0
        if channels == 3:
            place = first_r, first_q, step_r, step_q, bottom, end
            colours = brightness, mean, spread, contrast
            done = turned_pixels(row, values, width, place, colours, fill)
        for j in range(done, width):
            r = fused(step_r, np.float32(j), first_r)
            q = fused(step_q, np.float32(j), first_q)
            if not (r >= ZERO and q >= ZERO and r < bottom and q < end):
                row[channels * j] = row[channels * j + channels // 2] = row[channels * j + channels - 1] = (
                    fill
                )
                continue
            above, left = np.int32(r), np.int32(q)
            low, far = r - np.float32(above), q - np.float32(left)
            p = np.uintp(
                channels * (above * width + left)
            )  # an index that cannot be negative is not checked for it
            o = p + np.uintp(channels * width)
            step, second = np.uintp(channels), np.uintp(channels // 2)
            third = np.uintp(channels - 1)
            a = bilinear(values, p, o, step, far, low)
            b = bilinear(values, p + second, o + second, step, far, low)
            c = bilinear(values, p + third, o + third, step, far, low)
            recolour(row, channels * j, channels, a, b, c, brightness, mean, spread, contrast)


@copied
def _augment(y, x, top, total, flip, down, right, cosine, sine, brightness, saturation, contrast, fill):
    """Rows of what `augment` makes of x, from row `top` on; `total` is the sum of all values of x."""
    if x.shape[2] == 1:
        augment_pixels(
            y, x, top, total, 1, flip, down, right, cosine, sine, brightness, saturation, contrast, fill
        )
    else:
        augment_pixels(
            y, x, top, total, 3, flip, down, right, cosine, sine, brightness, saturation, contrast, fill
        )


@kernel
def augment(y, x, flip, down, right, cosine, sine, brightness, saturation, contrast, fill):
    """y = augmented copy of x, both uint8 (height, width, 3 or 1).

    Turned about its middle and made larger or smaller first (`Augmentation`; bilinear). Then colour:
    + `brightness`, then distance of each value to its pixel's mean times `saturation`, then distance to the
    mean of x times `contrast`. Then mirrored if `flip`, and moved by (`down`, `right`) pixels, what is
    uncovered set to `fill`.
    """
    total = added_up(x)
    _augment(y, x, 0, total, flip, down, right, cosine, sine, brightness, saturation, contrast, fill)


@kernel
def sum_pixels(y, x):
    """y (1,) int64 = the sum of all values of x (height, width, channels) uint8."""
    y[0] = added_up(x)


@kernel
def augment_rows(y, x, total, top, flip, down, right, cosine, sine, brightness, saturation, contrast, fill):
    """y (rows, width, channels) = rows of what `augment` makes of x, from row `top` on.

    `total` (1,) int64 is the sum of all values of x, so that nobody adds them up for every few rows.
    """
    _augment(y, x, top, total[0], flip, down, right, cosine, sine, brightness, saturation, contrast, fill)


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
