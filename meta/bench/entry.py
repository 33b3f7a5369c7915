"""A row of a comparison: which policy, inside which limits, at which learning rates."""

from dataclasses import dataclass

from tinytrain.plan.budget import Budget

DEFAULT_MEMORY, DEFAULT_MACS = Budget().memory, Budget().macs


@dataclass(frozen=True)
class Entry:
    """`policy` under a `label`; `rate_scale` multiplies its learning rates, the rest is its budget."""

    label: str
    policy: str
    rate_scale: float = 1.0
    memory: int = DEFAULT_MEMORY
    macs: float = DEFAULT_MACS

    @property
    def budget(self) -> Budget:
        return Budget(self.memory, self.macs)
