"""Policies by name; to add one, add a row."""

import difflib

from tinytrain.base.errors import UsageError
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
    )
}


def find_policy(policy: str | Policy) -> Policy:
    """The policy of that name. Raises UsageError that suggests the closest name."""
    if isinstance(policy, Policy):
        return policy
    if policy not in POLICIES:
        closest = difflib.get_close_matches(policy, POLICIES, n=1)
        hint = f"did you mean {closest[0]}? " if closest else ""
        raise UsageError("unknown-policy", f"no policy {policy!r}; {hint}known: {', '.join(POLICIES)}")
    return POLICIES[policy]
