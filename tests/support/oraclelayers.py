"""What the oracle does around convolutions, in float64: activations, max pooling, squeeze and excitation."""

import numpy as np
import oraclemodule
import oracletokens


def activation(layer, x):
    """(what follows the convolution of `layer`, its derivative); (x, None) if nothing does."""
    if layer.activation is None:
        return x, None
    return ACTIVATIONS[layer.activation](x, **dict(layer.attributes))


def _ramp(x):
    return np.clip(x / 6 + 0.5, 0, 1), abs(x) < 3


def _leaky(x, slope, floor):
    return np.maximum(np.where(x > 0, x, slope * x), floor), np.where(x > 0, 1, slope * (slope * x > floor))


# What an activation gives, and its derivative.
ACTIVATIONS = {
    "gelu": oracletokens.gelu,
    "relu6": lambda x: (np.clip(x, 0, 6), (x > 0) & (x < 6)),
    "relu": lambda x: (np.where(x > 0, x, 0), x > 0),
    "hard-sigmoid": lambda x: (_ramp(x)[0], _ramp(x)[1] / 6),
    "hard-swish": lambda x: (x * _ramp(x)[0], _ramp(x)[0] + x * _ramp(x)[1] / 6),
    "leaky-relu": _leaky,
}


def _windows(node, x):
    """(place in the window, what all windows of `node` read there) in order; outside is -inf."""
    (top, side), (rows, columns) = node.pad, node.kernel
    around = ((0, 0), (top, rows), (side, columns), (0, 0))
    wide = np.pad(x, around, constant_values=-np.inf)
    (down, across), (height, width) = node.stride, node.out_hw
    for dy, dx in np.ndindex(rows, columns):
        yield (
            slice(None), slice(dy, dy + (height - 1) * down + 1, down),
            slice(dx, dx + (width - 1) * across + 1, across),
        ), wide  # fmt: skip


def max_pool(node, inputs):
    return np.stack([wide[place] for place, wide in _windows(node, inputs[0])]).max(axis=0)


def max_pool_gradients(node, inputs, output, g):
    """Gradient of the input; of equal values the first one gets it."""
    gx, taken = None, np.zeros(g.shape, bool)
    for place, wide in _windows(node, inputs[0]):
        gx = np.zeros_like(wide) if gx is None else gx
        here = (wide[place] == output) & ~taken
        taken |= here
        gx[place] += g * here
    (top, side), (height, width) = node.pad, node.in_hw
    return (gx[:, top : top + height, side : side + width],)


# What operations without weights give, and the gradients of their inputs.
OPS = oracletokens.OPS | {
    "concat": (
        lambda node, inputs: np.concatenate(inputs, axis=-1),
        lambda node, inputs, output, g: np.split(g, np.cumsum([x.shape[-1] for x in inputs])[:-1], axis=-1),
    ),
    "max-pool": (max_pool, max_pool_gradients),
    "halve": (oraclemodule.halved, oraclemodule.halved_gradients),
    "widen": (oraclemodule.widened, oraclemodule.widened_gradients),
}
