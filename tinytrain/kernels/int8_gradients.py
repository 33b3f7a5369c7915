"""Gradients through layers of int8 programs: float32, of values, not of codes.

The gradients inside a block are its largest values. Its inner channels do not mix in the depthwise layer, so
`b` of them, from channel `first` on, are taken down to the input of the block before the next ones.
"""

import numpy as np

from tinytrain.kernels.activation import pack
from tinytrain.kernels.fused import fused
from tinytrain.kernels.int8_gradient_tiles import gradient_products, weight_products
from tinytrain.kernels.jit import copied, inlined, kernel

ZERO = np.float32(0)


@copied
def _grad_input(gx, g, w, scale, starts):
    gradient_products((gx, g, w, scale), (gx.shape[0], g.shape[1], gx.shape[1], w.shape[1]), starts)


@copied
def _grad_weight(gw, x, g, scale, zero, first):
    weight_products((gw[:, first:], x, g), (x.shape[0], gw.shape[0], g.shape[1], gw.shape[1]), scale, zero)


@kernel
def pack_inside(bits, y):
    """bits (ceil(m / 8),) uint8: whether each code of y (m,) int8 is neither -128 nor 127.

    Bit k of byte i belongs to y[k * len(bits) + i], as in `pack_mask`.
    """
    pack(bits, y, np.int8(-128), np.int8(126))


@kernel
def grad_input_codes(gx, g, w, scale):
    """gx (m, k) float32 = g (m, n) float32 times the values of w (n, k) int8; `scale` (n,) float32."""
    _grad_input(gx, g, w, scale, (0, 0, True))


@kernel
def grad_weight_codes(gw, x, g, scale, zero):
    """gw (k, j) float32 += values of codes x (m, k) int8, transposed, times g (m, j) float32."""
    _grad_weight(gw, x, g, scale, zero, 0)


@kernel
def widen_codes(y, x, scale, zero):
    """Values y (m, c) float32 of codes x (m, c) int8; `scale` (c,) float32."""
    for i in range(y.shape[0]):
        out, row = y[i], x[i]
        for c in range(out.shape[0]):
            out[c] = np.float32(np.int32(row[c] - zero)) * scale[c]


@kernel
def grad_input_columns(gx, g, w, scale, first):
    """gx (m, b) float32 = g (m, n) float32 times the values of columns [first, first + b) of w (n, k) int8.

    `scale` (n,) float32.
    """
    _grad_input(gx, g, w, scale, (0, first, True))


@kernel
def grad_input_rows(gx, g, w, scale, first):
    """gx (m, k) float32 += g (m, b) times the values of rows [first, first + b) of w (n, k) int8.

    The first rows start it at zero. `scale` (n,) float32.
    """
    _grad_input(gx, g, w, scale, (first, 0, first == 0))


@kernel
def mask_columns(g, bits, first, channels):
    """g (m, b) becomes 0 where no bit is set: those of columns [first, first + b) of so many `channels`.

    g is float32, `bits` (ceil(m * channels / 8),) uint8 in the order of `pack_inside`.
    """
    size, count = bits.shape[0], g.shape[1]
    for i in range(g.shape[0]):
        # Of a row, columns whose bits are number k of their bytes, and then those of the next number.
        start, row = i * channels + first, g[i]
        k, done = start // size, 0
        while done < count:
            some = bits[start + done - k * size :]
            here = min(count - done, (k + 1) * size - start - done)
            part, bit = row[done:], np.uint8(1 << k)
            for c in range(here):
                value = part[c]  # read in any case: LLVM makes no vectors of a read that depends on a bit
                part[c] = value if np.uint8(some[c] & bit) else ZERO
            done += here
            k += 1


@inlined
def widen_some(y, w, scale, first, count):
    """y (>= taps, >= count)[tap, c] = the value of w (taps, c)[tap, first + c]; the rest stays as it is."""
    own = scale[first:]
    for tap in range(w.shape[0]):
        row, line = y[tap], w[tap, first:]
        for c in range(count):
            row[c] = np.float32(line[c]) * own[c]


@kernel
def widen_columns(y, w, scale, first):
    """y (taps, b) float32 = the values of columns [first, first + b) of w (taps, c) int8; `scale` (c,)."""
    widen_some(y, w, scale, first, y.shape[1])


@kernel
def grad_weight_columns(gw, x, g, scale, zero, first):
    """gw (k, n)[:, first : first + b] += values of codes x (m, k) int8, transposed, times g (m, b)."""
    _grad_weight(gw, x, g, scale, zero, first)


@kernel
def gather_some(y, x, columns, first):
    """y (m, j)[:, k] = the column of x (m, b) that is channel `columns[k]`, for those that x has.

    float32; `columns` (j,) int32. x has the channels [first, first + b).
    """
    for k in range(columns.shape[0]):
        c = columns[k] - first
        if 0 <= c < x.shape[1]:
            for i in range(y.shape[0]):
                y[i, k] = x[i, c]


@kernel
def add_fisher_columns(total, dots, a, g, scale, zero, first):
    """As `add_fisher` of codes, of gradients g (positions, b) of channels [first, first + b).

    total (b,) float32 is that of these channels, dots (b,) scratch; codes a (positions, c) have all of them.
    """
    for c in range(dots.shape[0]):
        dots[c] = ZERO
    for i in range(a.shape[0]):
        left, right = a[i, first : first + dots.shape[0]], g[i]
        for c in range(dots.shape[0]):
            dots[c] = fused(scale * np.float32(np.int32(left[c] - zero)), right[c], dots[c])
    for c in range(dots.shape[0]):
        total[c] = fused(np.float32(0.5) * dots[c], dots[c], total[c])
