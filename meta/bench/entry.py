"""A row of a comparison: which policy, inside which limits, at which learning rates."""

from dataclasses import dataclass, replace

from tinytrain.adapt import find_policy
from tinytrain.plan import Budget, Recipe
from tinytrain.policies.common import Policy

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


def with_rates(policy: Policy, scale: float) -> Policy:
    """The same policy with all learning rates times `scale`."""
    if scale == 1:
        return policy

    def recipe(*arguments) -> Recipe:
        made = policy.recipe(*arguments)
        return replace(made, rates=tuple((scale * weight, scale * bias) for weight, bias in made.rates))

    return replace(policy, recipe=recipe)


def policy_of(entry: Entry) -> Policy:
    """What `adapt` runs for this row. Raises UsageError for an unknown policy."""
    return with_rates(find_policy(entry.policy), entry.rate_scale)
