"""Policies by name; adding one is adding a row."""

from tinytrain.policies import baselines, tinytrain, tinytrain_published

POLICIES = {
    policy.name: policy
    for policy in (
        tinytrain.POLICY,
        tinytrain_published.POLICY,
        baselines.FULL,
        baselines.LAST_LAYER,
        baselines.NONE,
    )
}
