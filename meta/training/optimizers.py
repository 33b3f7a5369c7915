"""AdamW and SGD with momentum over one flat float32 vector, and the schedule of their rates.

Moments are float32: a second moment in bfloat16 stops growing after some hundred steps.
"""

import math

import numpy as np

from tinytrain.program.trained_arrays import Slot

BLOCK = 65_536  # numbers worked on at once: workspaces stay in the second-level cache


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), bias-corrected, epsilon 1e-8."""

    def __init__(self, size: int, betas: tuple[float, float]):
        self.betas = betas
        self.state = {name: np.zeros(size, np.float32) for name in ("first", "second")}
        self._a, self._b = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)

    def step(self, values, gradient, rates, decays, factor: float, number: int) -> None:
        """values (m,) move by ``factor * rates``; `number` counts from 1; `decays` act on the values."""
        b1, b2 = (np.float32(b) for b in self.betas)
        root = np.float32(1 / math.sqrt(1 - self.betas[1] ** number))
        scale = np.float32(factor / (1 - self.betas[0] ** number))
        for start in range(0, len(values), BLOCK):
            at = slice(start, start + BLOCK)
            g, m, v, w = gradient[at], self.state["first"][at], self.state["second"][at], values[at]
            a, b = self._a[: len(g)], self._b[: len(g)]
            np.subtract(g, m, out=a)
            a *= 1 - b1
            m += a
            np.multiply(g, g, out=a)
            a -= v
            a *= 1 - b2
            v += a
            np.sqrt(v, out=a)
            a *= root
            a += np.float32(1e-8)
            np.divide(m, a, out=a)
            a *= scale
            np.multiply(w, decays[at], out=b)
            b *= np.float32(factor)
            a += b
            a *= rates[at]
            w -= a


class Momentum:
    """SGD with heavy-ball momentum; weight decay is decoupled here, too."""

    def __init__(self, size: int, betas: tuple[float, float]):
        self.beta = np.float32(betas[0])
        self.state = {"first": np.zeros(size, np.float32)}

    def step(self, values, gradient, rates, decays, factor: float, number: int) -> None:
        m = self.state["first"]
        m *= self.beta
        m += gradient
        values -= np.float32(factor) * rates * (m + decays * values)


KINDS = {"adamw": AdamW, "sgd": Momentum}


def rates_of(slots: tuple[Slot, ...], values: np.ndarray, settings) -> tuple[np.ndarray, np.ndarray]:
    """Highest learning rate and weight decay of every number of the network, (m,) float32 both.

    ``settings.early`` scales the rate of the first layer; it rises geometrically to 1 at the last. With
    ``settings.relative`` the rate of a weight is a fraction of the rms of its layer's first weights.
    Biases have ``bias_rate`` and no decay.
    """
    rates, decays = np.empty(len(values), np.float32), np.zeros(len(values), np.float32)
    last = max(s.layer for s in slots) or 1
    for slot in slots:
        at = slice(slot.start, slot.start + slot.size)
        depth = settings.early ** (1 - slot.layer / last)
        if slot.part == "bias":
            rates[at] = depth * settings.bias_rate
            continue
        rms = float(np.sqrt(np.mean(np.square(values[at], dtype=np.float64)))) if settings.relative else 1.0
        rates[at] = depth * settings.rate * rms
        decays[at] = settings.decay
    return rates, decays


def schedule(number: int, total: int, warm_up: int, floor: float = 0.0) -> float:
    """Share of the highest rate in step `number` (from 0): linear warm-up, then half a cosine to `floor`."""
    if number < warm_up:
        return (number + 1) / warm_up
    progress = (number - warm_up) / max(1, total - warm_up)
    return floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2


def clip(gradient: np.ndarray, most: float) -> float:
    """Scale `gradient` in place to a norm of at most `most` (0: leave it); the norm it had."""
    norm = math.sqrt(float(np.dot(gradient, gradient)))
    if most and norm > most:
        gradient *= np.float32(most / norm)
    return norm
