"""The gradient of the weights of the first layer of an int8 program, which reads codes of pixels."""

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import kernel


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
