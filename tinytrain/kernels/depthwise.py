"""Depthwise convolution: forward and gradient of the input.

x is (n, height, width, channels), w is (kernel * kernel, channels), padding is (kernel - 1) // 2
left and right; `top` is the padding above the first row of x, so that a band of rows of a
larger picture can be computed by itself.

Four output pixels are computed together for 16 channels, so that their sums stay in registers
and each weight is loaded once for all four. Every pixel adds up its taps row by row, left to
right, and the bias last, whichever loop computes it: a picture gives the same bits alone, in a batch
and in bands.

Inside, arrays are flat and offsets unsigned: a signed one makes numba test each index for
wrap-around; a negative step wraps as it should. `arrays` are (y, b, x, w), `steps` the distances (from tap
to tap in x, from row to row in x, the same two in w), `taps` (rows, columns) of the filter that are
met, `bounds` the lowest and highest result.
"""

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from tinytrain.kernels.jit import inlined, kernel, ordered

ZERO, SIX, INFINITY = np.float32(0), np.float32(6), np.float32(np.inf)
NONE, FOUR, LANES, SUMS = np.uint64(0), np.uint64(4), np.uint64(16), np.uint64(64)


@intrinsic
def place_of_sums(context):
    """Pointer to 64 floats on the stack of the calling kernel.

    LLVM knows that nothing else points there, so sums kept in this place need no overlap tests and
    live in registers while a loop runs.
    """

    def emit(context, builder, signature, args):
        with builder.goto_entry_block():
            place = builder.alloca(ir.ArrayType(ir.FloatType(), int(SUMS)))
        place.align = 64
        return builder.bitcast(place, ir.FloatType().as_pointer())

    return types.CPointer(types.float32)(), emit


@ordered
def _line(arrays, y, y_step, count, x, x_step, w, steps, taps, channels, bounds):
    """`count` >= 4 pixels of at least 16 channels that all meet the same taps.

    Pixel k is at offset y + k * y_step, its inputs start at x + k * x_step. The last four pixels
    and the last 16 channels overlap with those before where the numbers do not divide: the same is
    written twice. All channels of four pixels come first: x and y are met in the order of memory,
    which matters once they no longer lie in the cache.
    """
    yf, b, xf, wf = arrays
    x_tap, x_row, w_tap, w_row = steps
    (rows, columns), (low, high) = taps, bounds
    sums = carray(place_of_sums(), (64,))
    s1, s2, s3 = LANES, LANES + LANES, LANES + LANES + LANES
    end, length = np.uint64(count), np.uint64(columns) * w_tap
    k = NONE
    while k < end:
        k = min(k, end - FOUR)
        at = NONE
        while at < channels:
            at = min(at, channels - LANES)
            for c in range(SUMS):
                sums[c] = ZERO
            x_line, w_line = x + at + k * x_step, w + at
            for _ in range(rows):
                x0, w0 = x_line, w_line
                if columns == 3 and x_step == x_tap:
                    # Neighbours with stride 1 share inputs: six loads for twelve products.
                    w1 = w0 + w_tap
                    w2 = w1 + w_tap
                    x1 = x0 + x_tap
                    x2 = x1 + x_tap
                    x3 = x2 + x_tap
                    x4 = x3 + x_tap
                    x5 = x4 + x_tap
                    for c in range(LANES):
                        v0, v1, v2 = wf[w0 + c], wf[w1 + c], wf[w2 + c]
                        p1, p2, p3, p4 = xf[x1 + c], xf[x2 + c], xf[x3 + c], xf[x4 + c]
                        sums[c] = sums[c] + xf[x0 + c] * v0 + p1 * v1 + p2 * v2
                        sums[c + s1] = sums[c + s1] + p1 * v0 + p2 * v1 + p3 * v2
                        sums[c + s2] = sums[c + s2] + p2 * v0 + p3 * v1 + p4 * v2
                        sums[c + s3] = sums[c + s3] + p3 * v0 + p4 * v1 + xf[x5 + c] * v2
                else:
                    stop = w0 + length
                    # Not a range: LLVM would unroll it, and the addresses would no longer fit in registers.
                    while w0 != stop:
                        x1 = x0 + x_step
                        x2 = x1 + x_step
                        x3 = x2 + x_step
                        for c in range(LANES):
                            v = wf[w0 + c]
                            sums[c] += xf[x0 + c] * v
                            sums[c + s1] += xf[x1 + c] * v
                            sums[c + s2] += xf[x2 + c] * v
                            sums[c + s3] += xf[x3 + c] * v
                        x0 += x_tap
                        w0 += w_tap
                x_line += x_row
                w_line += w_row
            y0 = y + at + k * y_step
            y1 = y0 + y_step
            y2 = y1 + y_step
            y3 = y2 + y_step
            # One loop for all: short loops are unrolled before LLVM gets to vectorising them.
            for c in range(LANES):
                v = b[at + c]
                yf[y0 + c] = min(max(sums[c] + v, low), high)
                yf[y1 + c] = min(max(sums[c + s1] + v, low), high)
                yf[y2 + c] = min(max(sums[c + s2] + v, low), high)
                yf[y3 + c] = min(max(sums[c + s3] + v, low), high)
            at += LANES
        k += FOUR


@ordered
def _wide_pixel(arrays, y, x, w, steps, taps, channels, bounds):
    """One pixel of at least 64 channels, for the corners that no line of four reaches."""
    yf, b, xf, wf = arrays
    x_tap, x_row, w_tap, w_row = steps
    (rows, columns), (low, high) = taps, bounds
    sums = carray(place_of_sums(), (64,))
    s1, s2, s3 = LANES, LANES + LANES, LANES + LANES + LANES
    length = np.uint64(columns) * w_tap
    at = NONE
    while at < channels:
        at = min(at, channels - SUMS)
        for c in range(SUMS):
            sums[c] = ZERO
        x_line, w_line = x + at, w + at
        for _ in range(rows):
            x0, w0 = x_line, w_line
            stop = w0 + length
            while w0 != stop:
                for c in range(LANES):
                    sums[c] += xf[x0 + c] * wf[w0 + c]
                    sums[c + s1] += xf[x0 + s1 + c] * wf[w0 + s1 + c]
                    sums[c + s2] += xf[x0 + s2 + c] * wf[w0 + s2 + c]
                    sums[c + s3] += xf[x0 + s3 + c] * wf[w0 + s3 + c]
                x0 += x_tap
                w0 += w_tap
            x_line += x_row
            w_line += w_row
        out = y + at
        for c in range(SUMS):
            yf[out + c] = min(max(sums[c] + b[at + c], low), high)
        at += SUMS


@ordered
def _narrow_pixel(arrays, y, x, w, steps, taps, channels, bounds):
    """One pixel of less than 64 channels."""
    yf, b, xf, wf = arrays
    x_tap, x_row, w_tap, w_row = steps
    (rows, columns), (low, high) = taps, bounds
    sums = carray(place_of_sums(), (64,))
    for c in range(channels):
        sums[c] = ZERO
    for _ in range(rows):
        x0, w0 = x, w
        for _ in range(columns):
            for c in range(channels):
                sums[c] += xf[x0 + c] * wf[w0 + c]
            x0 += x_tap
            w0 += w_tap
        x += x_row
        w += w_row
    for c in range(channels):
        yf[y + c] = min(max(sums[c] + b[c], low), high)


@inlined
def met(tap, stride, pad, count, size):
    """Outputs [first, last) of `count` along one axis whose tap lies on one of `size` inputs."""
    first = max(0, (pad - tap + stride - 1) // stride)
    last = min(count, (size - 1 + pad - tap) // stride + 1)
    return first, max(first, last)


@inlined
def _inner(count, size, stride, before, taps, channels):
    """Outputs [first, last) of `count` that meet all taps; none where `_line` could not take them."""
    first = max(0, (before + stride - 1) // stride)
    last = min(count, (size + before - taps) // stride + 1)
    return (first, last) if last - first >= 4 and channels >= LANES else (0, 0)


@inlined
def _plane(arrays, y, y_steps, y_shape, x, x_shape, stride, pads, w, w_steps, taps, channels, bounds):
    """One picture: `y_shape` pixels from offset y on, `y_steps` apart, from x of `x_shape` at offset x.

    `pads` above and left of x; `w_steps` from row to row and tap to tap. The middle of each row is
    computed across, the sides down, what is left in the corners pixel by pixel.
    """
    (down, across), (y_row, y_step), (height, width) = y_shape, y_steps, x_shape
    (above, before), (w_row, w_tap) = pads, w_steps
    x_row = np.uint64(width) * channels
    steps = channels, x_row, w_tap, w_row
    top, bottom = _inner(down, height, stride, above, taps[0], channels)
    left, right = _inner(across, width, stride, before, taps[1], channels)
    for i in range(down):
        r = i * stride - above
        skipped = max(0, -r)
        rows = max(0, min(taps[0], height - r) - skipped)
        x_line, w_line = x + np.uint64(r + skipped) * x_row, w + np.uint64(skipped) * w_row
        y_line = y + np.uint64(i) * y_row
        if left < right:
            x0 = x_line + np.uint64(left * stride - before) * channels
            y0 = y_line + np.uint64(left) * y_step
            step, met = np.uint64(stride) * channels, (rows, taps[1])
            _line(arrays, y0, y_step, right - left, x0, step, w_line, steps, met, channels, bounds)
        if top < i < bottom:
            continue
        for j in range(across):
            if left <= j < right:
                continue
            q = j * stride - before
            skipped = max(0, -q)
            met = rows, max(0, min(taps[1], width - q) - skipped)
            x0, w0 = x_line + np.uint64(q + skipped) * channels, w_line + np.uint64(skipped) * w_tap
            y0 = y_line + np.uint64(j) * y_step
            if i == top and top < bottom:
                step = np.uint64(stride) * x_row
                _line(arrays, y0, y_row, bottom - top, x0, step, w0, steps, met, channels, bounds)
            elif channels >= SUMS:
                _wide_pixel(arrays, y0, x0, w0, steps, met, channels, bounds)
            else:
                _narrow_pixel(arrays, y0, x0, w0, steps, met, channels, bounds)


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
    """Which taps the input positions first, first + stride, ... meet: (how many, padding, highest tap).

    Along one axis, position first + k * stride meets tap t through output k - padding + u, where
    t = highest - u * stride: a convolution of stride 1 with every stride-th tap in reverse order.
    """
    pad = (size - 1) // 2
    lowest = (first + pad) % stride
    more = (size - 1 - lowest) // stride
    return more + 1, more - (first + pad) // stride, lowest + more * stride


@kernel
def depthwise_grad_input(gx, zeros, g, w, size, stride):
    """gx (n, height, width, channels): gradient of the input from g (n, out height, out width, channels).

    `zeros` (channels,) is the bias and is filled here.
    """
    n, height, width, channels = g.shape
    down, across = gx.shape[1], gx.shape[2]
    c1 = np.uint64(channels)
    for c in range(c1):
        zeros[c] = ZERO
    arrays = gx.reshape(-1), zeros, g.reshape(-1), w.reshape(-1)
    step, back = np.uint64(stride) * c1, np.uint64(-stride) * c1
    gx_steps, w_steps = (np.uint64(across) * step, step), (np.uint64(size) * back, back)
    one = min(stride, 1)  # not a literal: numba would compile `_plane` once more for it
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
