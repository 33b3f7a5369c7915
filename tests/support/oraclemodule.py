"""Taps of filters, and the ends of lite residual modules, in float64, plain numpy."""

import numpy as np


def _halving(side):
    """(max(1, side // 2), side) matrix that takes means of two neighbours; a lone one stays."""
    if side == 1:
        return np.eye(1)
    return np.repeat(np.eye(side // 2), 2, axis=1) @ np.eye(side // 2 * 2, side) / 2


def _bilinear(count, size):
    """(count, size) matrix of linear interpolation between values at the centres of their pixels."""
    centres = (np.arange(count) + 0.5) * size / count - 0.5
    return np.stack([np.interp(centres, np.arange(size), unit) for unit in np.eye(size)], axis=1)


def _planes(rows, columns, x):
    return np.einsum("ip,jq,npqc->nijc", rows, columns, x)


def _pool(x):
    return _planes(*(_halving(side) for side in x.shape[1:3]), x)


def padded(layer, x):
    top, side = layer.pad
    return np.pad(x, ((0, 0), (top, top), (side, side), (0, 0)))


def taps(layer, wide):
    """(tap, inputs that it meets) for every tap of the filter; `wide` is padded."""
    (down, across), (high, broad) = layer.stride, layer.filter_hw
    for tap, (dy, dx) in enumerate(np.ndindex(layer.kernel)):
        yield tap, wide[:, dy::down, dx::across][:, :high, :broad]


def parts(layer):
    """(input channels, output channels) of each group, as slices."""
    reads, writes = layer.cin // layer.groups, layer.cout // layer.groups
    for k in range(layer.groups):
        yield slice(k * reads, (k + 1) * reads), slice(k * writes, (k + 1) * writes)


def halved(node, inputs):
    return _pool(inputs[0])


def halved_gradients(node, inputs, output, g):
    return (_planes(*(_halving(side).T for side in inputs[0].shape[1:3]), g),)


def widened(node, inputs):
    """The first input and the second, interpolated to the size of the first."""
    x, low = inputs
    sides = zip(x.shape[1:3], low.shape[1:3], strict=True)
    return x + _planes(*(_bilinear(*pair) for pair in sides), low)


def widened_gradients(node, inputs, output, g):
    sides = zip(g.shape[1:3], inputs[1].shape[1:3], strict=True)
    return g, _planes(*(_bilinear(*pair).T for pair in sides), g)
