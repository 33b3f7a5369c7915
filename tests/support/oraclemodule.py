"""Lite residual modules in float64, plain numpy: what the oracle adds to the output of a block."""

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
    p = layer.pad
    return np.pad(x, ((0, 0), (p, p), (p, p), (0, 0)))


def taps(layer, wide):
    """(tap, inputs that it meets) for every tap of the filter; `wide` is padded."""
    height, width = ((side - 1) * layer.stride + 1 for side in layer.filter_hw)
    for tap in range(layer.kernel**2):
        dy, dx = divmod(tap, layer.kernel)
        yield tap, wide[:, dy : dy + height : layer.stride, dx : dx + width : layer.stride]


def _groups(layer):
    """(input channels, output channels) of each group, as slices."""
    reads, writes = layer.cin // layer.groups, layer.cout // layer.groups
    for k in range(layer.groups):
        yield slice(k * reads, (k + 1) * reads), slice(k * writes, (k + 1) * writes)


def _grouped(layer, x, w):
    total, reads = np.zeros((len(x), *layer.out_hw, layer.cout)), layer.cin // layer.groups
    for tap, part in taps(layer, padded(layer, x)):
        for some, out in _groups(layer):
            total[..., out] += part[..., some] @ w[tap * reads : (tap + 1) * reads, out]
    return total


def _grouped_gradients(layer, x, w, g):
    wide = padded(layer, x)
    gx, gw, reads = np.zeros_like(wide), np.zeros_like(w), layer.cin // layer.groups
    for (tap, part), (_, target) in zip(taps(layer, wide), taps(layer, gx), strict=True):
        rows = slice(tap * reads, (tap + 1) * reads)
        for some, out in _groups(layer):
            gw[rows, out] = np.tensordot(part[..., some], g[..., out], ((0, 1, 2), (0, 1, 2)))
            target[..., some] += g[..., out] @ w[rows, out].T
    p = layer.pad
    return gx[:, p : gx.shape[1] - p, p : gx.shape[2] - p], gw


def forward(oracle, module, x, shape, run):
    """What `module` adds to an output of `shape`, from the input x of the block; noted in `run`."""
    index, (filtered, projected) = module.index, module.layers
    run.inputs[index] = _pool(x)
    run.plain[index] = _grouped(filtered, run.inputs[index], oracle.weights[index]) + oracle.biases[index]
    run.masks[index] = (run.plain[index] > 0) & (run.plain[index] < 6)
    run.inputs[index + 1] = np.clip(run.plain[index], 0, 6)
    low = run.inputs[index + 1] @ oracle.weights[index + 1] + oracle.biases[index + 1]
    return _planes(*(_bilinear(*sides) for sides in zip(shape[1:3], projected.out_hw, strict=True)), low)


def backward(oracle, module, run, g, found, masks):
    """Gradient of the block's input through `module`; those of the module's numbers go into `found`."""
    index, (filtered, projected) = module.index, module.layers
    low = _planes(*(_bilinear(*sides).T for sides in zip(g.shape[1:3], projected.out_hw, strict=True)), g)
    found.biases[index + 1] = low.sum(axis=(0, 1, 2))
    found.weights[index + 1] = np.tensordot(run.inputs[index + 1], low, ((0, 1, 2), (0, 1, 2)))
    hidden = low @ oracle.weights[index + 1].T * masks[index]
    found.biases[index] = hidden.sum(axis=(0, 1, 2))
    pooled, found.weights[index] = _grouped_gradients(
        filtered, run.inputs[index], oracle.weights[index], hidden
    )
    sides = oracle.network.layers[module.first].in_hw
    return _planes(*(_halving(side).T for side in sides), pooled)
