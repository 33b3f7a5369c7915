"""Policies by name; to add one, add a row."""

from tinytrain.base.registry import find
from tinytrain.policies import (
    ablations,
    baselines,
    bias_only,
    sparse_update,
    tinytl,
    tinytrain,
    tinytrain_published,
    trady,
    transductive,
)
from tinytrain.policies.common import Policy

POLICIES = {
    policy.name: policy
    for policy in (
        tinytrain.POLICY,
        tinytrain_published.POLICY,
        baselines.FULL,
        baselines.LAST_LAYER,
        bias_only.POLICY,
        tinytl.POLICY,
        *sparse_update.ROWS,
        trady.POLICY,
        transductive.POLICY,
        ablations.L2,
        ablations.RANDOM,
        baselines.NONE,
        baselines.NONE_LDA,
    )
}


def find_policy(policy: str | Policy) -> Policy:
    """The policy of that name, or of ``NAME+HEAD`` with that head. Raises UsageError with the closest one."""
    if isinstance(policy, Policy):
        return policy
    name, plus, head = policy.partition("+")
    found = find("policy", name, POLICIES)
    return found.with_head(head) if plus else found
