"""Depthwise convolution: gradient of the weight.

Arrays are flat and offsets unsigned, as in `depthwise`. For one row of output gradients and one row of the
filter, neighbouring taps read neighbouring inputs. Three taps are summed together over the positions where
all three lie inside the image; the rest at both ends of the row is summed tap by tap.
"""

import numpy as np
from numba import carray

from tinytrain.kernels.depthwise import LANES, NONE, SUMS, ZERO, place_of_sums
from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import inlined, kernel, ordered

ENOUGH = 2  # pairs of positions; with fewer, summing three taps together is slower


@ordered
def _one_tap(arrays, gw, x, g, first, last, x_step, channels):
    """gw[c] += sum over positions k from `first` to `last` - 1 of x[k * x_step + c] * g[k * channels + c].

    Up to four positions at a time, so that gw is loaded and stored less often.
    """
    gwf, xf, gf = arrays
    count, c1, far = last - first, np.uint64(channels), np.uint64(x_step)
    y, x0, g0 = np.uint64(gw), np.uint64(x + first * x_step), np.uint64(g + first * channels)
    while count >= 4:
        x1, g1 = x0 + far, g0 + c1
        x2, g2 = x1 + far, g1 + c1
        x3, g3 = x2 + far, g2 + c1
        for c in range(c1):
            low = fused(xf[x0 + c], gf[g0 + c], xf[x1 + c] * gf[g1 + c])
            gwf[y + c] += fused(xf[x3 + c], gf[g3 + c], fused(xf[x2 + c], gf[g2 + c], low))
        x0, g0 = x3 + far, g3 + c1
        count -= 4
    if count >= 2:
        x1, g1 = x0 + far, g0 + c1
        for c in range(c1):
            gwf[y + c] += fused(xf[x0 + c], gf[g0 + c], xf[x1 + c] * gf[g1 + c])
        x0, g0 = x1 + far, g1 + c1
        count -= 2
    if count >= 1:
        for c in range(c1):
            gwf[y + c] = fused(xf[x0 + c], gf[g0 + c], gwf[y + c])


@ordered
def _three_taps(arrays, gw, x, x_step, g, pairs, channels):
    """The same for three neighbouring taps and 2 * `pairs` positions of at least 16 channels.

    The sums stay in registers, and each g is loaded once for all three. Each turn takes two positions: LLVM
    would unroll a shorter loop instead of vectorising it.
    """
    gwf, xf, gf = arrays
    sums = carray(place_of_sums(), (SUMS,))
    s1, s2 = LANES, LANES + LANES
    length, done = np.uint64(2) * pairs * channels, NONE
    while done < channels:
        at = min(done, channels - LANES)
        for c in range(s1 + s2):
            sums[c] = ZERO
        x0, g0 = x + at, g + at
        end = g0 + length
        while g0 != end:
            x1 = x0 + channels
            x2 = x1 + channels
            x3 = x0 + x_step
            x4 = x3 + channels
            x5 = x4 + channels
            g1 = g0 + channels
            for c in range(LANES):
                v, w = gf[g0 + c], gf[g1 + c]
                sums[c] = fused(xf[x3 + c], w, fused(xf[x0 + c], v, sums[c]))
                sums[c + s1] = fused(xf[x4 + c], w, fused(xf[x1 + c], v, sums[c + s1]))
                sums[c + s2] = fused(xf[x5 + c], w, fused(xf[x2 + c], v, sums[c + s2]))
            x0 = x3 + x_step
            g0 = g1 + channels
        # If 16 does not divide the channels, the last 16 overlap with channels that are already added.
        known = done - at
        gw0 = gw + at
        gw1 = gw0 + channels
        gw2 = gw1 + channels
        for c in range(LANES):
            gwf[gw0 + c] += sums[c] if c >= known else ZERO
            gwf[gw1 + c] += sums[c + s1] if c >= known else ZERO
            gwf[gw2 + c] += sums[c + s2] if c >= known else ZERO
        done = at + LANES


@inlined
def met(tap, stride, pad, count, size):
    """Outputs [first, last) of `count` along one axis whose `tap` reads one of the `size` inputs."""
    first = max(0, (pad - tap + stride - 1) // stride)
    last = min(count, (size - 1 + pad - tap) // stride + 1)
    return first, max(first, last)


@inlined
def _filter_row(arrays, gw, x, g, size, stride, width, across, channels):
    """One row of `across` positions at g and of `size` taps at gw, for the row of inputs at x."""
    step, pad = stride * channels, (size - 1) // 2
    corner = x - pad * channels
    for three in range(0, size, 3):
        left, _ = met(three, stride, pad, across, width)
        _, right = met(three + 2, stride, pad, across, width)
        pairs = (right - left) // 2
        if three + 2 < size and channels >= LANES and pairs >= ENOUGH:
            right = left + 2 * pairs
            tap, x0, g0 = gw + three * channels, corner + three * channels + left * step, g + left * channels
            _three_taps(
                arrays, np.uint64(tap), np.uint64(x0), np.uint64(step), np.uint64(g0), np.uint64(pairs),
                np.uint64(channels),
            )  # fmt: skip
        else:
            left = right = across
        for dx in range(three, min(three + 3, size)):
            first, last = met(dx, stride, pad, across, width)
            tap, x0 = gw + dx * channels, corner + dx * channels
            _one_tap(arrays, tap, x0, g, first, min(left, last), step, channels)
            _one_tap(arrays, tap, x0, g, max(right, first), last, step, channels)


@kernel
def depthwise_grad_weight(gw, x, g, size, stride):
    """gw (size * size, channels) += gradient of the weight, summed over images and positions."""
    pad = (size - 1) // 2
    n, height, width, channels = x.shape
    down, across = g.shape[1], g.shape[2]
    arrays = gw.reshape(-1), x.reshape(-1), g.reshape(-1)
    for k in range(n):
        for i in range(down):
            g0 = (k * down + i) * across * channels
            for dy in range(max(0, pad - i * stride), min(size, height + pad - i * stride)):
                x0 = (k * height + i * stride + dy - pad) * width * channels
                _filter_row(arrays, dy * size * channels, x0, g0, size, stride, width, across, channels)
