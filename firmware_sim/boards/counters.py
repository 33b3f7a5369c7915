"""What an adaptation does to memory and arithmetic, counted call by call as its kernels run.

Multiply-accumulates come from the shapes of the arrays that a kernel was given, by the table of signatures,
not from the plan that is to be checked with them. Bytes are those of every array a call reads or writes,
once each. What the engine does in numpy itself (copying features, averaging prototypes) is no kernel call
and is not in it.
"""

from dataclasses import dataclass

import numpy as np

from tinytrain.program.signatures import KERNELS


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
        shapes = [a.shape for a in args[: len(KERNELS[kernel].arrays)]]
        count.network_macs += KERNELS[kernel].macs(shapes)
        count.other_macs += KERNELS[kernel].head_macs(shapes)

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
