"""Patches of int8 programs: of an image as int16 codes, with the gradient of the weights, and of codes."""

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import inlined, kernel
from tinytrain.kernels.lite_residual import take_patches
from tinytrain.kernels.vectors import SHORT, room

ROOM = 2048  # codes of an image row with its padding that lie on the stack


@intrinsic
def _place_of_codes(typing):
    """Pointer to ROOM int16 on the stack of the calling kernel."""

    def emit(context, builder, signature, arguments):
        return room(builder, SHORT, ROOM)

    return types.CPointer(types.int16)(), emit


@inlined
def _take_row(codes, start, image, table, r, rotated):
    """Codes of row r from codes[start] on.

    The 3 values of a pixel, or its 1 value 3 times: without a loop it is faster.
    """
    height, width, channels = image.shape
    pixels, codes_of = image.reshape(-1), table.reshape(-1)
    c1 = np.uint64(channels)
    middle, last = np.uint64(channels // 2), np.uint64(channels - 1)
    from_, step = np.uint64(r * width * channels), c1
    if rotated:
        from_, step = np.uint64(((height - 1 - r) * width + width - 1) * channels), np.uint64(0) - c1
    place = np.uint64(start)
    for _ in range(width):
        codes[place] = codes_of[np.uint64(pixels[from_]) * c1]
        codes[place + middle] = codes_of[np.uint64(pixels[from_ + middle]) * c1 + middle]
        codes[place + last] = codes_of[np.uint64(pixels[from_ + last]) * c1 + last]
        place += c1
        from_ += step


@inlined
def _unfold_one_by_one(y, image, table, size, stride, first, rotated):
    """Images with long rows, and items of other channels than images have."""
    height, width, channels = image.shape
    pad = (size - 1) // 2
    for i in range(y.shape[0]):
        for dy in range(size):
            r = (first + i) * stride + dy - pad
            for j in range(y.shape[1]):
                patch = y[i, j]
                for dx in range(size):
                    q, k = j * stride + dx - pad, (dy * size + dx) * channels
                    inside = 0 <= r < height and 0 <= q < width
                    for c in range(channels):
                        if not inside:
                            patch[k + c] = np.int16(0)
                        elif rotated:
                            patch[k + c] = table[image[height - 1 - r, width - 1 - q, c], c]
                        else:
                            patch[k + c] = table[image[r, q, c], c]


@kernel
def unfold_codes(y, image, table, size, stride, first, rotated):
    """y (rows, out width, size * size * c) int16: patches of the output rows from `first` on.

    `image` (height, width, c) uint8, turned by 180 degrees if `rotated`; `table` (256, c) int16 has
    the code of every pixel value. Padding is code 0. A row of the image becomes codes once, for all patches.
    """
    height, width, channels = image.shape
    rows, across = y.shape[0], y.shape[1]
    pad, line = (size - 1) // 2, size * channels
    begin, end = pad * channels, (pad + width) * channels
    # What the last patch of a row reads, which may lie behind the image.
    most = max(end, ((across - 1) * stride + size) * channels)
    if most > ROOM or channels not in (1, 3):
        _unfold_one_by_one(y, image, table, size, stride, first, rotated)
        return
    codes, patches = carray(_place_of_codes(), (ROOM,)), y.reshape(-1)
    for k in range(most):
        codes[k] = np.int16(0)
    for r in range(first * stride - pad, (first + rows - 1) * stride - pad + size):
        if 0 <= r < height:
            _take_row(codes, begin, image, table, r, rotated)
        else:
            for k in range(begin, end):
                codes[k] = np.int16(0)
        for dy in range(size):
            above = r + pad - dy - first * stride
            if above < 0 or above % stride or above // stride >= rows:
                continue
            at = np.uint64((above // stride * across * size + dy) * line)
            for j in range(across):
                start = np.uint64(j * stride * channels)
                for k in range(np.uint64(line)):
                    patches[at + k] = codes[start + k]
                at += np.uint64(size * line)


@kernel
def unfold_plane_codes(y, x, size, stride, first, lines, top, fill):
    """y (rows, out width, size * size * channels) int8: patches of codes x (n, height, width, channels).

    As `unfold_plane`, but the rows of each image begin with `top` of padding, whose code is `fill`.
    """
    take_patches(y, x, size, size, stride, top, (size - 1) // 2, first, lines, np.int8(fill))


@kernel
def grad_weight_image(gw, image, g, table, scale, size, stride, rotated):
    """gw (size * size * c, j) float32 += values of the patches of an image, transposed, times g (h, w, j).

    `image`, `table`, `rotated` and padding as in `unfold_codes`; a code stands for ``scale * code``.
    """
    height, width, channels = image.shape
    pad = (size - 1) // 2
    for k in range(gw.shape[0]):
        row, tap, c = gw[k], k // channels, k % channels
        for i in range(g.shape[0]):
            r = i * stride + tap // size - pad
            if 0 <= r < height:
                line = image[height - 1 - r if rotated else r]
                for j in range(g.shape[1]):
                    q = j * stride + tap % size - pad
                    if 0 <= q < width:
                        pixel = line[width - 1 - q if rotated else q, c]
                        factor = scale * np.float32(table[pixel, c])
                        for o in range(row.shape[0]):
                            row[o] = fused(factor, g[i, j, o], row[o])
