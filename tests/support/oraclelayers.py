"""What the oracle does around convolutions, in float64: activations, max pooling, squeeze and excitation."""

import numpy as np


def activation(layer, x):
    """(what follows the convolution of `layer`, its derivative); (x, None) if nothing does."""
    name = "relu6" if layer.relu6 else layer.activation
    if name is None:
        return x, None
    if name == "relu6":
        return np.clip(x, 0, 6), (x > 0) & (x < 6)
    if name == "relu":
        return np.where(x > 0, x, 0), x > 0
    ramp, inside = np.clip(x / 6 + 0.5, 0, 1), abs(x) < 3
    if name == "hard-sigmoid":
        return ramp, inside / 6
    return x * ramp, ramp + x * inside / 6


def _windows(x):
    """(9, n, rows, columns, channels): what windows of 3 x 3 with stride 2 and padding 1 read."""
    n, height, width, channels = x.shape
    wide = np.full((n, height + 2, width + 2, channels), -np.inf)
    wide[:, 1:-1, 1:-1] = x
    return np.stack([
        wide[:, dy : dy + 2 * ((height + 1) // 2) - 1 : 2, dx : dx + 2 * ((width + 1) // 2) - 1 : 2]
        for dy in range(3) for dx in range(3)
    ])  # fmt: skip


def max_pool(x):
    return _windows(x).max(axis=0)


def max_pool_gradient(x, g):
    """Gradient of x; of equal values the first one gets it."""
    windows, gx = _windows(x), np.zeros((len(x), x.shape[1] + 2, x.shape[2] + 2, x.shape[3]))
    taken = np.zeros(g.shape, bool)
    for tap in range(9):
        dy, dx = divmod(tap, 3)
        here = (windows[tap] == windows.max(axis=0)) & ~taken
        taken |= here
        gx[:, dy : dy + 2 * g.shape[1] - 1 : 2, dx : dx + 2 * g.shape[2] - 1 : 2] += g * here
    return gx[:, 1:-1, 1:-1]
