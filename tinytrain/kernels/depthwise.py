"""Depthwise convolution: forward and gradient of the input.

x is (n, height, width, channels), w is (kernel * kernel, channels), padding is (kernel - 1) // 2
left and right. `top` is the padding above the first row of x, so that a row tile of a larger image can be
computed alone.

A row of outputs is computed in register tiles of eight or four pixels (`register_tile`). If it is too short,
has too few channels or has another filter, it is computed pixel by pixel. Both ways add the taps of a pixel
row by row, left to right, and the bias last. So an image gives the same bits alone, in a batch and in row
tiles.

The helpers use flat arrays and unsigned offsets, because numba tests every signed index for wrap-around;
a negative step wraps as it should. `arrays` are (y, b, x, w). `steps` are distances: from tap to tap and
from row to row in x, then the same two in w. `taps` (rows, columns) are the filter taps inside the image.
`bounds` are the lowest and highest result.
"""

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from tinytrain.kernels.depthwise_rows import FILTERS, key_of, register_tile, tile_channels
from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import copied, inlined, kernel, ordered
from tinytrain.kernels.vectors import room

ZERO, SIX, INFINITY = np.float32(0), np.float32(6), np.float32(np.inf)
NONE, LANES, SUMS = np.uint64(0), np.uint64(16), np.uint64(64)
# Channels of a register tile of 8 and of 4 pixels.
EIGHT, FOUR = np.uint64(tile_channels(8)), np.uint64(tile_channels(4))
KEYS = tuple(key_of(taps, stride) for taps, stride in FILTERS)


@intrinsic
def place_of_sums(context):
    """Pointer to 64 floats on the stack of the calling kernel.

    LLVM knows that nothing else points there. So sums in this place need no overlap tests and stay in
    registers during a loop.
    """

    def emit(context, builder, signature, args):
        return room(builder, ir.FloatType(), int(SUMS))

    return types.CPointer(types.float32)(), emit


_eight, _four = register_tile(8), register_tile(4)
_key_of = inlined(key_of)


@ordered
def _row(arrays, y, y_step, count, x, column, width, stride, w, steps, taps, channels, bounds):
    """`count` pixels in register tiles: at least 4 pixels of FOUR channels, or 8 of EIGHT.

    The first tap of the first pixel is in `column` of `width`, at offset x.
    """
    x_tap, x_row, w_tap, w_row = steps
    all_steps = y_step, x_tap, x_row, w_tap, w_row
    key, c1 = _key_of(taps[1], stride), np.int64(channels)
    eights = 0  # pixels in tiles of eight
    if count >= 8:
        eights = count if channels < FOUR else min((count + 3) // 8 * 8, count)
        _eight(arrays, (y, x, w), all_steps, (eights, c1, column, width), taps[0], key, bounds)
    if eights < count:
        k = count - 4 if eights else 0
        y0, x0 = y + np.uint64(k) * y_step, x + np.uint64(k * stride) * x_tap
        sizes = count - k, c1, column + k * stride, width
        _four(arrays, (y0, x0, w), all_steps, sizes, taps[0], key, bounds)


@ordered
def _pixel(arrays, y, x, w, steps, taps, channels, bounds):
    """One pixel, up to 64 channels at a time."""
    yf, b, xf, wf = arrays
    x_tap, x_row, w_tap, w_row = steps
    (rows, columns), (low, high) = taps, bounds
    sums = carray(place_of_sums(), (64,))
    at = NONE
    while at < channels:
        count = min(SUMS, channels - at)
        for c in range(count):
            sums[c] = ZERO
        x_line, w_line = x + at, w + at
        for _ in range(rows):
            x0, w0 = x_line, w_line
            for _ in range(columns):
                for c in range(count):
                    sums[c] = fused(xf[x0 + c], wf[w0 + c], sums[c])
                x0 += x_tap
                w0 += w_tap
            x_line += x_row
            w_line += w_row
        out = y + at
        for c in range(count):
            yf[out + c] = min(max(sums[c] + b[at + c], low), high)
        at += count


@inlined
def _pixels(arrays, y, y_step, count, x, column, width, stride, w, steps, taps, channels, bounds):
    """Like `_row`, but pixel by pixel, for any number of pixels and channels."""
    x_tap, _, w_tap, _ = steps
    for k in range(count):
        q = column + k * stride
        skipped = max(0, -q)
        met = taps[0], max(0, min(taps[1], width - q) - skipped)
        y0, x0 = y + np.uint64(k) * y_step, x + np.uint64(k * stride + skipped) * x_tap
        w0 = w + np.uint64(skipped) * w_tap
        _pixel(arrays, y0, x0, w0, steps, met, channels, bounds)


@inlined
def _fits_tiles(count, width, stride, before, taps, channels):
    """Whether `_row` can compute rows of `count` pixels whose taps begin `before` columns left of x."""
    beyond = (count - 1) * stride - before + taps - width
    enough = (count >= 8 and channels >= EIGHT) or (count >= 4 and channels >= FOUR)
    return enough and max(before, beyond) <= taps // 2 and _key_of(taps, stride) in KEYS


@copied
def _plane(arrays, y, y_steps, y_shape, x, x_shape, stride, pads, w, w_steps, taps, channels, bounds):
    """One image: `y_shape` pixels from offset y on, `y_steps` apart, from x of `x_shape` at offset x.

    `pads` are the paddings above and left of x, `w_steps` the distances from row to row and tap to tap.
    """
    (down, across), (y_row, y_step), (height, width) = y_shape, y_steps, x_shape
    (above, before), (w_row, w_tap) = pads, w_steps
    x_row = np.uint64(width) * channels
    steps = channels, x_row, w_tap, w_row
    tiled = _fits_tiles(across, width, stride, before, taps[1], channels)
    for i in range(down):
        r = i * stride - above
        skipped = max(0, -r)
        met = max(0, min(taps[0], height - r) - skipped), taps[1]
        x0 = x + np.uint64(r + skipped) * x_row - np.uint64(before) * channels
        y0, w0 = y + np.uint64(i) * y_row, w + np.uint64(skipped) * w_row
        if tiled:
            _row(arrays, y0, y_step, across, x0, -before, width, stride, w0, steps, met, channels, bounds)
        else:
            _pixels(arrays, y0, y_step, across, x0, -before, width, stride, w0, steps, met, channels, bounds)


@kernel
def depthwise_forward(y, x, w, b, size, stride, top, relu6):
    """y (n, out height, out width, channels) = conv(x) + b, then ReLU6 if `relu6`."""
    n, height, width, channels = x.shape
    down, across = y.shape[1], y.shape[2]
    c1 = np.uint64(channels)
    arrays = y.reshape(-1), b, x.reshape(-1), w.reshape(-1)
    y_steps, w_steps = (np.uint64(across) * c1, c1), (np.uint64(size) * c1, c1)
    bounds = (ZERO, SIX) if relu6 else (-INFINITY, INFINITY)
    for k in range(n):
        y0, x0 = np.uint64(k * down * across) * c1, np.uint64(k * height * width) * c1
        _plane(
            arrays, y0, y_steps, (down, across), x0, (height, width), stride, (top, (size - 1) // 2),
            NONE, w_steps, (size, size), c1, bounds,
        )  # fmt: skip


@inlined
def _phase(first, size, stride):
    """The taps that read the input positions first, first + stride, ...: (count, padding, highest tap).

    Along one axis, output k - padding + u reads position first + k * stride by tap highest - u * stride.
    That is a convolution of stride 1 with every stride-th tap in reverse order.
    """
    pad = (size - 1) // 2
    lowest = (first + pad) % stride
    more = (size - 1 - lowest) // stride
    return more + 1, more - (first + pad) // stride, lowest + more * stride


@kernel
def depthwise_grad_input(gx, zeros, g, w, size, stride):
    """gx (n, height, width, channels): gradient of the input from g (n, out height, out width, channels).

    `zeros` (channels,) is filled with 0 and used as the bias.
    """
    n, height, width, channels = g.shape
    down, across = gx.shape[1], gx.shape[2]
    c1 = np.uint64(channels)
    for c in range(c1):
        zeros[c] = ZERO
    arrays = gx.reshape(-1), zeros, g.reshape(-1), w.reshape(-1)
    step, back = np.uint64(stride) * c1, np.uint64(-stride) * c1
    gx_steps, w_steps = (np.uint64(across) * step, step), (np.uint64(size) * back, back)
    one = min(stride, 1)  # not a literal, because numba would compile `_row` and others again for it
    for k in range(n):
        g0 = np.uint64(k * height * width) * c1
        for i in range(min(stride, down)):
            tap_rows, above, lowest = _phase(i, size, stride)
            for j in range(min(stride, across)):
                tap_columns, before, rightmost = _phase(j, size, stride)
                shape = (down - i + stride - 1) // stride, (across - j + stride - 1) // stride
                gx0, w0 = ((k * down + i) * across + j) * channels, (lowest * size + rightmost) * channels
                _plane(
                    arrays, np.uint64(gx0), gx_steps, shape, g0, (height, width), one, (above, before),
                    np.uint64(w0), w_steps, (tap_rows, tap_columns), c1, (-INFINITY, INFINITY),
                )  # fmt: skip
