"""The kernels of int8 programs in plain numpy: the reference for tests, and the fallback without numba.

A code q stands for the value ``scale * (q - zero)``. Weights are int8 from -127 to 127, symmetric, with a
scale per output channel; sums are int32. A sum becomes a code by `rescaled`, in integers alone, so that every
processor and every language gives the same one. Matrices of dense layers are (cout, fan_in): the weights of
an output channel lie side by side. Gradients are float32, of values, not of codes.
"""

import numpy as np

from tinytrain.kernels.reference import depthwise_grad_input, depthwise_grad_weight, unfold_plane
from tinytrain.kernels.reference_layers import pack, window

LOWEST, HIGHEST = -128, 127


def rescaled(sums, factor, shift):
    """floor(sums * factor / 2**shift + 1/2) of int32 sums, with factor < 2**31: the nearest, halves up."""
    return (sums.astype(np.int64) * factor + (np.int64(1) << (np.asarray(shift, np.int64) - 1))) >> shift


def coded(values, zero):
    return np.clip(values + zero, LOWEST, HIGHEST).astype(np.int8)


# ---- forward ----------------------------------------------------------------------------------------


def unfold_codes(y, image, table, size, stride, first, rotated):
    """Patches of an image: `table` (256, c) int16 has the code of every pixel value; padding is code 0."""
    pad = (size - 1) // 2
    image = np.rot90(image, 2) if rotated else image
    codes = np.take_along_axis(table, image.reshape(-1, image.shape[2]).astype(np.intp), axis=0)
    codes = np.pad(codes.reshape(image.shape), ((pad, pad + stride), (pad, pad), (0, 0)))[
        None, first * stride :
    ]
    taps = [window(codes, t // size, t % size, (1, *y.shape), stride)[0] for t in range(size * size)]
    y[...] = np.concatenate(taps, axis=-1)


def unfold_plane_codes(y, x, size, stride, first, lines, top, fill):
    """As `unfold_plane` of codes, with `top` rows of padding above x; padding has the code `fill`."""
    unfold_plane(y, x - np.int8(fill), size, size, stride, top, (size - 1) // 2, first, lines)
    y += np.int8(fill)  # int8 comes round again


def product_codes(y, x, w, b, factor, shift, zero):
    """y (m, n) int8 from codes x (m, k) and weights w (n, k); `b` has what their zero adds up to, too."""
    sums = x.astype(np.int32) @ w.astype(np.int32).T + b
    y[...] = coded(rescaled(sums, factor, shift), zero)


product_wide = product_codes  # of int16 codes x, those of an image


def depthwise_codes(y, x, w, b, factor, shift, size, stride, top, fill, zero):
    """As `depthwise_forward`; w (taps, c); pixels outside of the image have the code `fill`."""
    bottom = max(0, (y.shape[1] - 1) * stride + size - top - x.shape[1])
    side = (size - 1) // 2
    padded = np.pad(
        x.astype(np.int32), ((0, 0), (top, bottom), (side, side), (0, 0)), constant_values=int(fill)
    )
    sums = np.broadcast_to(b, y.shape).astype(np.int32)
    for tap in range(size * size):
        sums += window(padded, tap // size, tap % size, y.shape, stride) * w[tap].astype(np.int32)
    y[...] = coded(rescaled(sums, factor, shift), zero)


def add_codes(y, x, skip, x_factor, skip_factor, shift, x_zero, skip_zero, zero):
    """The code of a sum of two values: both factors are below 2**20, so that int32 holds everything."""
    sums = (x.astype(np.int32) - x_zero) * x_factor + (skip.astype(np.int32) - skip_zero) * skip_factor
    y[...] = coded((sums + (1 << (shift - 1))) >> shift, zero)


def pool_codes(y, x, scale, zero):
    """Means (n, c) of the values of codes x (n, p, c); `scale` is that of a code divided by p."""
    y[...] = scale * (x.sum(axis=1, dtype=np.int32) - x.shape[1] * zero).astype(np.float32)


def copy_codes(y, x):
    y[...] = x.copy()


def gather_codes(y, x, columns):
    y[...] = x[:, columns]


# ---- backward ---------------------------------------------------------------------------------------


def pack_inside(bits, y):
    """A bit for each code: whether it lies between the lowest and the highest. Order as in `pack_mask`."""
    pack(bits, (y > LOWEST) & (y < HIGHEST))


def grad_input_codes(gx, g, w, scale):
    """gx (m, k) = g (m, n) times the values of w (n, k)."""
    gx[...] = (g * scale) @ w.astype(g.dtype)


def depthwise_grad_input_codes(gx, work, g, w, scale, size, stride):
    """As `depthwise_grad_input`, with w (taps, c) int8; `work` (taps, 16) is scratch."""
    depthwise_grad_input(gx, work, g, w * scale, size, stride)


def depthwise_grad_weight_codes(gw, x, g, scale, zero, size, stride):
    """As `depthwise_grad_weight`, of the values of codes x."""
    depthwise_grad_weight(gw, scale * (x.astype(g.dtype) - zero), g, size, stride)


def grad_input_columns(gx, g, w, scale, first):
    """gx (m, b) = g (m, n) times the values of some columns of w (n, k), from `first` on."""
    gx[...] = (g * scale) @ w[:, first : first + gx.shape[1]].astype(g.dtype)


def grad_input_rows(gx, g, w, scale, first):
    """gx (m, k) += g (m, b) times the values of some rows of w (n, k); the first ones start it at zero."""
    rows = slice(first, first + g.shape[1])
    found = (g * scale[rows]) @ w[rows].astype(g.dtype)
    gx[...] = found + (gx if first else 0)


def grad_weight_columns(gw, x, g, scale, zero, first):
    gw[:, first : first + g.shape[1]] += (scale * (x.astype(g.dtype) - zero)).T @ g


def mask_columns(g, bits, first, channels):
    """As `apply_mask`, of columns of so many `channels`, from `first` on."""
    flat = np.unpackbits(bits[None], axis=0, bitorder="little").reshape(-1)[: len(g) * channels]
    g[flat.reshape(len(g), channels)[:, first : first + g.shape[1]] == 0] = 0


def widen_columns(y, w, scale, first):
    """Values y (taps, b) of some columns of w (taps, c), from `first` on."""
    columns = slice(first, first + y.shape[1])
    y[...] = w[:, columns] * scale[columns]


def gather_some(y, x, columns, first):
    """y (m, j)[:, k] = the column of x (m, b) that is channel `columns[k]`, for those that x has."""
    there = (columns >= first) & (columns < first + x.shape[1])
    y[:, there] = x[:, columns[there] - first]


def depthwise_grad_in_place(g, work, w, scale, size):
    """As `depthwise_grad_input` with stride 1, in the place of g; `work` (taps + pixels, 16) is scratch."""
    depthwise_grad_input(g, work, g.copy(), w * scale, size, 1)


def grad_weight_codes(gw, x, g, scale, zero):
    """gw (k, j) += values of x (m, k), transposed, times g (m, j)."""
    gw += (scale * (x.astype(g.dtype) - zero)).T @ g


def grad_weight_image(gw, image, g, table, scale, size, stride, rotated):
    """gw (taps * c, j) += values of the patches of an image, transposed, times g (h, w, j)."""
    patches = np.empty((*g.shape[:2], len(gw)), np.int16)
    unfold_codes(patches, image, table, size, stride, 0, rotated)
    gw += (scale * patches.reshape(-1, len(gw)).astype(g.dtype)).T @ g.reshape(-1, g.shape[2])


def widen_codes(y, x, scale, zero):
    """Values y of codes x (m, c), `scale` (c,)."""
    y[...] = (x.astype(y.dtype) - zero) * scale


def add_fisher_columns(total, dots, a, g, scale, zero, first):
    """As `add_fisher`, of codes a (positions, c) and gradients g (positions, b) of channels from `first`."""
    dots[...] = (scale * (a[:, first : first + len(dots)].astype(g.dtype) - zero) * g).sum(axis=0)
    total += dots**2 / 2
