"""Policies by name; adding one is adding a row."""

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
