"""What the sizes alone say about a budget, before any image is read."""

from bisect import bisect_left

import numpy as np

from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.scores import Scores
from tinytrain.planner.fit import WIDE_BANDS, infeasible, smallest_budget
from tinytrain.policies.common import Policy
from tinytrain.program.compile import compile_probe
from tinytrain.program.program import Program


def _widest(network: Network, inspected, budget: Budget, task: TaskShape) -> Program | None:
    """The program of the probe with the frozen part in the widest bands that fit."""
    wide = (compile_probe(network, inspected, task, band) for band in WIDE_BANDS)
    return next((program for program in wide if program.nbytes <= budget.memory), None)


def smallest_with_probe(
    network: Network, policy: Policy, scores: Scores | None, budget: Budget, task: TaskShape
) -> int:
    """Bytes of the smallest arena for training and for the probe of the deepest layer before it."""
    wanted = policy.inspects(network) if policy.inspects else ()
    probe = compile_probe(network, wanted[-1:], task).nbytes if wanted else 0
    return max(probe, smallest_budget(network, policy, scores, budget, task))


def probe_inside(network: Network, policy: Policy, budget: Budget, task: TaskShape) -> Program | None:
    """The program of the probe, None if the policy asks for none; ``inspected`` names its layers.

    The shallowest layers, whose gradients are the largest, are left out until the rest fits the
    budget. Raises BudgetError where already the sizes say that it is too small.
    """
    wanted = policy.inspects(network) if policy.inspects else ()
    # Nothing was measured yet, so every channel counts as much as any other.
    alike = {i: np.ones(network.layers[i].cout, np.float32) for i in wanted}
    guess = Scores(alike, 0.0, 0, 0) if wanted else None
    programs: dict[int, Program] = {}

    def fits(left_out: int) -> bool:
        programs[left_out] = compile_probe(network, wanted[left_out:], task)
        return programs[left_out].nbytes <= budget.memory

    trains = smallest_budget(network, policy, guess, budget, task) <= budget.memory
    if not wanted and trains:
        return None
    if trains and (widest := _widest(network, wanted, budget, task)):
        return widest
    if trains and fits(0):
        return programs[0]
    most = len(wanted) - 1  # one layer at the least is measured
    least = bisect_left(range(most), True, lo=min(1, most), key=fits) if wanted else 0
    if wanted and fits(least) and trains:
        return programs[least]
    probe = programs[least].nbytes if wanted else 0
    raise infeasible(network, policy, guess, budget, task, probe)
