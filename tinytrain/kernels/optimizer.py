"""Optimizer steps over one flat vector of trained parameters, computed in place of their gradients g (m,).

Moments are bfloat16 bit patterns in uint16: the upper half of a float32, rounded to nearest.
`starts` (s + 1,) int32 divides the vector into slices; `rates` (s,) are their learning rates.
"""

import math

import numpy as np

from tinytrain.kernels.fused import fused
from tinytrain.kernels.jit import inlined, kernel

ONE = np.float32(1)


@inlined
def _to_bfloat16(values, bits):
    """bits (m,) uint16 of the float32 values seen as uint32 (m,), rounded to nearest even."""
    for i in range(bits.shape[0]):
        v = values[i]
        bits[i] = np.uint16((v + np.uint32(0x7FFF) + ((v >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@inlined
def _from_bfloat16(values, bits):
    for i in range(bits.shape[0]):
        values[i] = np.uint32(bits[i]) << np.uint32(16)


@kernel
def sgd_step(g, starts, rates):
    """g (m,) float32 becomes what is to be taken from the parameters: slice s times ``rates[s]``."""
    for s in range(rates.shape[0]):
        for i in range(starts[s], starts[s + 1]):
            g[i] *= rates[s]


@kernel
def momentum_step(g, m, work, starts, rates, beta):
    """Heavy-ball momentum: m = beta * m + g, g = rate * m; m (m,) uint16, work (block,) float32."""
    bits = work.view(np.uint32)
    block = work.shape[0]
    for s in range(rates.shape[0]):
        for first in range(starts[s], starts[s + 1], block):
            last = min(first + block, starts[s + 1])
            _from_bfloat16(bits, m[first:last])
            for i in range(last - first):
                work[i] = fused(beta, work[i], g[first + i])
                g[first + i] = rates[s] * work[i]
            _to_bfloat16(bits, m[first:last])


@kernel
def adam_step(g, m, v, work, starts, rates, beta1, beta2, step):
    """Adam (Kingma and Ba, 2015) with bias correction, epsilon 1e-8; `step` counts from 1.

    m, v (m,) uint16; work (2 * block,) float32.
    """
    block = work.shape[0] // 2
    first_moment, second_moment = work[:block], work[block:]
    first_bits, second_bits = first_moment.view(np.uint32), second_moment.view(np.uint32)
    correct1 = ONE / (ONE - beta1**step)
    correct2 = ONE / (ONE - beta2**step)
    for s in range(rates.shape[0]):
        for first in range(starts[s], starts[s + 1], block):
            last = min(first + block, starts[s + 1])
            _from_bfloat16(first_bits, m[first:last])
            _from_bfloat16(second_bits, v[first:last])
            for i in range(last - first):
                x = g[first + i]
                first_moment[i] = fused(ONE - beta1, x, beta1 * first_moment[i])
                second_moment[i] = fused((ONE - beta2) * x, x, beta2 * second_moment[i])
                g[first + i] = (
                    rates[s]
                    * first_moment[i]
                    * correct1
                    / (math.sqrt(second_moment[i] * correct2) + np.float32(1e-8))
                )
            _to_bfloat16(first_bits, m[first:last])
            _to_bfloat16(second_bits, v[first:last])


@kernel
def take_step(w, steps):
    """w (n,) minus steps (n,), float32."""
    for i in range(w.shape[0]):
        w[i] -= steps[i]
