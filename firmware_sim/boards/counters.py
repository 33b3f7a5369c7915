"""What an adaptation does to memory and arithmetic, counted call by call as its kernels run.

Multiply-accumulates come from the shapes of the arrays that a kernel was given, by the table of signatures,
not from the plan that is to be checked with them. Bytes are those of every array a call reads or writes,
once each. What the engine does in numpy itself (copying features, averaging prototypes) is no kernel call
and is not in it.
"""

import operator
from dataclasses import dataclass

import numpy as np

from tinytrain.program.signatures import KERNELS


@dataclass(frozen=True)
class Count:
    """Calls of one kernel in one stage, with their multiply-accumulates and bytes."""

    calls: int = 0
    network_macs: int = 0
    other_macs: int = 0
    bytes: int = 0

    @property
    def macs(self) -> int:
        return self.network_macs + self.other_macs

    def __add__(self, other: "Count") -> "Count":
        return Count(*map(operator.add, vars(self).values(), vars(other).values()))


class Tally:
    """Counts by stage and kernel. What is counted belongs to the stage that `end_stage` names next."""

    def __init__(self):
        self.stages: dict[str, dict[str, Count]] = {}
        self._open: dict[str, Count] = {}

    def add(self, kernel: str, args: tuple) -> None:
        signature = KERNELS[kernel]
        shapes = [a.shape for a in args[: len(signature.arrays)]]
        nbytes = sum(a.nbytes for a in args if isinstance(a, np.ndarray))
        count = Count(1, signature.macs(shapes), signature.head_macs(shapes), nbytes)
        self._open[kernel] = self._open.get(kernel, Count()) + count

    def end_stage(self, name: str) -> None:
        stage = self.stages.setdefault(name, {})
        stage |= {kernel: stage.get(kernel, Count()) + count for kernel, count in self._open.items()}
        self._open = {}

    def total(self, stage: str) -> Count:
        """Sum over the kernels of a stage; zero for one that never was."""
        return sum(self.stages.get(stage, {}).values(), Count())
