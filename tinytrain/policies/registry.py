"""Policies by name. To add one, add a row here and a line in `__init__.py` for the help."""

from tinytrain.base.registry import find
from tinytrain.episode.episode import too_few_classes
from tinytrain.heads.registry import HEADS
from tinytrain.plan.plan import Plan
from tinytrain.policies import (
    ablations,
    baselines,
    bias_only,
    lora,
    sparse_update,
    tinytl,
    tinytrain,
    tinytrain_published,
    trady,
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
        *tinytl.ADAPTERDROP,
        lora.POLICY,
        *sparse_update.ROWS,
        trady.POLICY,
        baselines.TRANSDUCTIVE,
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


def least_classes(policy: Policy | Plan) -> int:
    """How many classes a task must have: 2, or 1 if the head that is asked for needs no second one."""
    head = policy.recipe.head if isinstance(policy, Plan) else policy.name.partition("+")[2]
    return HEADS[head].least_classes if head in HEADS else 2


def policy_for(policy: Policy, way: int) -> Policy:
    """`policy` for a task of `way` classes. With one class there is nothing to train but the head.

    Raises InputError ``too-few-classes`` if its head needs a second one.
    """
    if way < least_classes(policy):
        raise too_few_classes(way)
    return baselines.NONE.with_head(policy.name.partition("+")[2]) if way == 1 else policy
