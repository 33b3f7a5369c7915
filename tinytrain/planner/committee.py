"""Plans for the members of a committee, which take turns in the same bytes, and the bytes of their head."""

import math

import numpy as np

from tinytrain.base.errors import BudgetError
from tinytrain.base.units import as_option
from tinytrain.heads.head import HeadMethod
from tinytrain.heads.leave_one_out import COLUMNS
from tinytrain.heads.registry import BASELINE, find_head
from tinytrain.network.committee import Committee, alone
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.plan import Plan
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.program.forward import compile_forward


class CommitteePlanner:
    """A `Planner` for each member of `network`, with the same policy and budget; `adapt` divides the seconds.

    A fraction of the MACs is one of each network's own, so a committee takes as many as its members together.
    Raises UsageError ``unsupported`` for a plan, which belongs to one network, and for features that are to
    be kept; and what `Planner` raises.
    """

    def __init__(
        self, network: Committee, task: TaskShape, policy: str | Policy, budget: Budget | None = None
    ):
        if isinstance(policy, Plan):
            alone(network, "a plan")
        if task.replay:
            alone(network, "--replay")
        self.network, self.task, self.asked, self.budget = network, task, policy, budget or Budget()
        self.members = tuple(Planner(member, task, policy, self.budget) for member in network.members)
        self.given = None

    def of(self, task: TaskShape | None = None, budget: Budget | None = None) -> "CommitteePlanner":
        """The same for other sizes or another budget."""
        task, budget = task or self.task, budget or self.budget
        if (task, budget) == (self.task, self.budget):
            return self
        return CommitteePlanner(self.network, task, self.asked, budget)

    def probe(self) -> None:
        """Raise BudgetError if the sizes say that the budget is too small for a member or for the head."""
        for member in self.members:
            member.probe()
        first, memory = self.members[0], self.budget.memory
        recipe = first.policy.recipe(first.network, first.unmeasured(), first.budget, self.task, 1.0)
        if recipe.options.entropy:
            alone(self.network, "a policy that learns from queries")
        arenas = sum(compile_forward(m.network, m.precision).nbytes for m in self.members)
        needed = arenas + head_bytes(
            find_head(recipe.head), self.task.n_way, self.network.embedding_size, self.task.n_support
        )
        if needed > memory:
            raise head_too_large(self.network, self.task.n_support, needed, memory)

    def advice(self, scores: object = None) -> dict[str, int]:
        """Those of `Planner.advice` for the member that needs most."""
        rows = [member.advice(member.unmeasured()) for member in self.members]
        return {name: max(row[name] for row in rows) for name in rows[0]}


def planner_for(
    network: Network | Committee, task: TaskShape, policy: str | Policy | Plan, budget: Budget | None = None
) -> Planner | CommitteePlanner:
    """The planner for a network or a committee. Raises what these raise."""
    kind = CommitteePlanner if isinstance(network, Committee) else Planner
    return kind(network, task, policy, budget)


def head_methods(method: HeadMethod) -> tuple[HeadMethod, ...]:
    """The heads that are fitted for a committee: `method`, and cosine prototypes last."""
    return tuple(dict.fromkeys((method, BASELINE)))


def head_arrays(method: HeadMethod, way: int, size: int, images: int) -> dict[str, tuple]:
    """Shape and dtype of the arrays that a head is fitted in, by name."""
    return {b.name: (b.shape, b.dtype) for b in method.buffers_for(way, size, images)}


def head_bytes(method: HeadMethod, way: int, size: int, images: int) -> int:
    """Bytes that fitting the heads takes beside what embeds, with room for one embedding."""
    heads = (head_arrays(m, way, size, images).values() for m in head_methods(method))
    arrays = sum(math.prod(shape) * np.dtype(dtype).itemsize for found in heads for shape, dtype in found)
    # Class means, centred ones and counts; what leaving each image out shows, before training and after it.
    return arrays + 4 * (way * (2 * size + 1) + 2 * images * COLUMNS + size)


def head_too_large(committee: Committee, images: int, needed: int, memory: int) -> BudgetError:
    """The error for a committee whose head cannot be fitted in `memory`."""
    return BudgetError(
        "budget-too-small",
        f"the head of {committee} with {images} support images needs {needed} bytes, the budget is {memory}; "
        f"give --budget {as_option(needed)} or more",
        needed,
    )
