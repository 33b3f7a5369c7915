"""Which of the recommended networks fit where another does not."""

from collections.abc import Iterator

from tinytrain.backbones.catalogue import TIERS, named
from tinytrain.base.errors import BudgetError, UsageError
from tinytrain.network.file import load_network
from tinytrain.network.network import Network
from tinytrain.plan.budget import AUTO, Budget, TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy


def least_arena(network: Network, policy: Policy, task: TaskShape, precision: str = AUTO) -> int | None:
    """Bytes of the smallest arena for `policy` in `precision`; None where another limit is in the way.

    Another limit is a policy that does not know this network, SparseUpdate's for example.
    """
    try:
        planner = Planner(network, task, policy, Budget(memory=0, precision=precision))
        return planner.smallest_budget(planner.unmeasured())
    except (BudgetError, UsageError):
        return None


def fitting_tiers(
    other: Network, policy: Policy, task: TaskShape, budget: Budget
) -> Iterator[tuple[str, int]]:
    """Tiers, largest first, that work in the memory and precision of `budget`, with the bytes that they need.

    Only networks on this machine can be asked, for inputs of the kind of `other`, and not that itself. Two
    side by side need more than each of them.
    """
    for tier in reversed(TIERS):
        row = named(tier)
        if not row or row.name == other.name or not row.path.is_file():
            continue
        network = load_network(row.path)
        if network.input.kind != other.input.kind:
            continue
        least = least_arena(network, policy, task, budget.precision)
        if least is not None and least <= budget.memory:
            yield tier, least
