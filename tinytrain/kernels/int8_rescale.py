"""From int32 sums to int8 codes, in integers alone."""

import numpy as np

from tinytrain.kernels.jit import inlined


@inlined
def rescaled(total, factor, shift):
    """floor(total * factor / 2**shift + 1/2): the nearest whole number, halves up."""
    return (np.int64(total) * np.int64(factor) + (np.int64(1) << np.int64(shift - 1))) >> np.int64(shift)


@inlined
def as_code(value, zero):
    """int8 code of a whole number of steps."""
    return np.int8(min(max(np.int64(value + zero), np.int64(-128)), np.int64(127)))
