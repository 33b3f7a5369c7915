"""What an adaptation does to memory and arithmetic, counted call by call as its kernels run.

Multiply-accumulates come from the shapes of the arrays that a kernel was given, not from the plan that is to
be checked with them. Bytes are those of every array a call reads or writes, once each. What the engine does
in numpy itself (copying features to a lane, averaging prototypes) is no kernel call and is not in it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def _product(y, x, w) -> int:
    return y.size * x.shape[1]


def _filtered(y, x, weight, bias, kernel, *_) -> int:
    return y.size * kernel**2


def _depthwise_gradient(out, other, g, *rest) -> int:
    kernel = rest[-2]
    return g.size * kernel**2


def _similarities(loss, residual, cosine, queries, labels, prototypes, temperature) -> int:
    return queries.shape[0] * prototypes.size


def _similarity_gradients(grad, residual, cosine, queries, prototypes, share) -> int:
    return queries.shape[0] * prototypes.size


def _outer(scatter, rows, factor) -> int:
    return rows.shape[0] * scatter.size


def _triangle(*arrays) -> int:
    """Of a lower factor, and of its inverse."""
    return len(arrays[-1]) ** 3 // 6


def _solve(rows, factor) -> int:
    return rows.shape[0] * factor.size


# Kernel -> multiply-accumulates of one call. These are the network's; a plan counts them too.
NETWORK_MACS: dict[str, Callable[..., int]] = {
    "matmul": _product,
    "depthwise_forward": _filtered,
    "depthwise_grad_input": _depthwise_gradient,
    "depthwise_grad_weight": _depthwise_gradient,
}
# These are those of the loss and the head, which the counts of the field and of a plan leave out.
OTHER_MACS: dict[str, Callable[..., int]] = {
    "prototype_loss": _similarities,
    "prototype_loss_grad": _similarity_gradients,
    "add_outer": _outer,
    "cholesky": _triangle,
    "cholesky_solve": _solve,
    "inverse_diagonal": _triangle,
}


@dataclass
class Count:
    """Calls of one kernel in one stage, with their multiply-accumulates and bytes."""

    calls: int = 0
    network_macs: int = 0
    other_macs: int = 0
    bytes: int = 0

    @property
    def macs(self) -> int:
        return self.network_macs + self.other_macs

    def __iadd__(self, other: "Count") -> "Count":
        self.calls += other.calls
        self.network_macs += other.network_macs
        self.other_macs += other.other_macs
        self.bytes += other.bytes
        return self


class Tally:
    """Counts by stage and kernel. What is counted belongs to the stage that `end_stage` names next."""

    def __init__(self):
        self.stages: dict[str, dict[str, Count]] = {}
        self._open: dict[str, Count] = {}

    def add(self, kernel: str, args: tuple) -> None:
        count = self._open.setdefault(kernel, Count())
        count.calls += 1
        count.bytes += sum(a.nbytes for a in args if isinstance(a, np.ndarray))
        if kernel in NETWORK_MACS:
            count.network_macs += NETWORK_MACS[kernel](*args)
        elif kernel in OTHER_MACS:
            count.other_macs += OTHER_MACS[kernel](*args)

    def end_stage(self, name: str) -> None:
        stage = self.stages.setdefault(name, {})
        for kernel, count in self._open.items():
            stage.setdefault(kernel, Count())
            stage[kernel] += count
        self._open = {}

    def total(self, stage: str) -> Count:
        """Sum over the kernels of a stage; zero for one that never was."""
        count = Count()
        for part in self.stages.get(stage, {}).values():
            count += part
        return count
