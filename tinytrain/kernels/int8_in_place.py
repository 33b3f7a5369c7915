"""Gradients of int8 weights that are never kept: a row of them, its step of SGD, and the codes that take it.

Bits are those of `grad_weight_columns`, `sgd_step` and `round_codes` or `round_masters`, one after another.
"""

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.int8_updates import drawn_by, round_row, round_row_of_masters
from tinytrain.kernels.jit import inlined, kernel

ZERO = np.float32(0)


@inlined
def _step_of_row(work, x, k, g, codes, rate):
    """work (b,) = rate times the gradient of row k of the weights; ``codes`` = (scale, zero) of x."""
    scale, zero = codes
    for j in range(work.shape[0]):
        work[j] = ZERO
    for i in range(x.shape[0]):
        factor, line = scale * np.float32(x[i, k] - zero), g[i]
        for j in range(work.shape[0]):
            work[j] = fused(factor, line[j], work[j])
    for j in range(work.shape[0]):
        work[j] *= rate


@kernel
def step_codes(w, rest, work, x, g, lsb, columns, seed, scale, zero, rate, first, rule, step, salt):
    """Columns [first, first + b) of w (k, n) int8 take a step by codes x (m, k) int8 and g (m, b) float32.

    `scale` and `zero` of x as in `grad_weight_columns`; `rest`, `lsb`, `columns` (n,), `seed`, `rule`, `step`
    and `salt` as in `round_codes`; work (b,) float32 is scratch.
    """
    offset = drawn_by(seed, step, salt)
    for k in range(w.shape[0]):
        _step_of_row(work, x, k, g, (scale, zero), rate)
        round_row(w, rest, work, lsb, columns, (k, first), offset, rule)


@kernel
def step_masters(w, masters, work, x, g, lsb, columns, scale, zero, rate, first):
    """The same of masters (k, n) float32, in codes, as `round_masters` takes steps."""
    for k in range(w.shape[0]):
        _step_of_row(work, x, k, g, (scale, zero), rate)
        round_row_of_masters(w, masters, work, lsb, columns, (k, first))
