"""How to spend a time limit: fit only a head, or train, and with how many MACs.

How many steps the time allows is decided when training begins, and once more when the first step is over.
Here it is estimated, from MACs and the speed that Fisher scoring had on this machine.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.plan import Plan
from tinytrain.plan.recipe import Recipe
from tinytrain.plan.scores import Scores
from tinytrain.planner.candidates import LEAST_VIEWS
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.program.mac_counts import stage_macs
from tinytrain.program.program import Program
from tinytrain.program.stages import STEP

# Fractions of the steps that the policy would make, chosen on domains that are no targets: with fewer steps
# than the first, a head is hardly worse; below the second, more but cheaper steps are just as accurate
# (`meta.studies.operations`, `meta.studies.seconds`).
WORTH_TRAINING, WORTH_MACS = 0.1, 0.4
# Passes over all images before which nothing is trained: clean ones, cached views, and what a plan takes.
LEAST_PASSES = 1 + Recipe.views + 3
# How much faster than Fisher scoring passes are that take several images at once, as they do from a cache.
# This is corrected when heads were fitted.
SEVERAL = 1.5


@dataclass(frozen=True)
class Speed:
    """Seconds of a MAC: in forward passes, and in those for gradients."""

    forward: float
    gradients: float


class Time(Protocol):
    """What is left of the time of an adaptation, in seconds; `speed` is None until it was measured."""

    speed: Speed | None

    def left(self) -> float: ...


def least_macs(network: Network, task: TaskShape) -> int:
    """MACs that come before the first step of training: with less time, scores are of no use."""
    return LEAST_PASSES * task.n_support * network.macs


def fixed_macs(program: Program) -> int:
    """MACs of an adaptation that are not those of its steps."""
    return sum(stage_macs(program, s) for s in program.stages if s.part and s.name not in STEP)


def step_seconds(program: Program, speed: Speed) -> float:
    """Seconds of one training step."""
    found = {s.name: stage_macs(program, replace(s, times=1)) for s in program.stages if s.name in STEP}
    return found.get("loss", 0) * speed.forward + found["gradients"] * speed.gradients


def steps_in(program: Program, time: Time) -> int:
    """Training steps that fit into what is left of the time, beside everything else."""
    gain = SEVERAL if program.resources.micro > 1 else 1
    left = time.left() - fixed_macs(program) * time.speed.forward
    return max(0, int(left / (step_seconds(program, time.speed) / gain)))


def in_time(planner: Planner, scores: Scores | None, time: Time | None) -> Planner:
    """The planner of what should be done in this time: `planner` itself without a time, or for a given plan.

    The policy may name smaller fractions of the MACs. The largest one is taken of which enough steps fit; if
    hardly one of the smallest fits, nothing is trained and a head is fitted alone. Without scores, the speed
    is unknown, and all is as without a time.
    """
    if time is None or planner.given or not planner.policy.trains:
        return planner
    if scores is not None and not scores.fisher:
        return _head_alone(planner, scores, time)
    if time.speed is None:
        return planner
    found, macs = None, planner.budget.macs
    for fraction in (*(m for m in planner.policy.fewer_macs if m < macs), macs):
        budget = replace(planner.budget, macs=fraction)
        other = (
            planner if fraction == macs else Planner(planner.network, planner.task, planner.policy, budget)
        )
        plan = other.plan(scores)
        if not plan.recipe.updates:
            return other
        steps, wanted = steps_in(other.program(plan), time), plan.recipe.n_steps
        if steps < (WORTH_MACS if found else WORTH_TRAINING) * wanted:
            break
        found = other
        if steps < wanted:
            break
    return found or _head_alone(planner, scores, time)


def expected(plan: Plan, program: Program, time: Time) -> Plan:
    """`plan` with as many steps as should fit into the time."""
    if not plan.recipe.updates or plan.recipe.options.resample_channels or time.speed is None:
        return plan
    steps = min(plan.recipe.n_steps, max(1, steps_in(program, time)))
    return replace(plan, recipe=replace(plan.recipe, steps=steps))


def _head_alone(planner: Planner, scores: Scores, time: Time) -> Planner:
    """A planner that fits the head of the policy for this task, to as many views as there is time for."""
    policy, network, task = planner.policy, planner.network, planner.task
    measured = planner.unmeasured(scores.similarity)

    def recipe(network, _, budget, task, fraction) -> Recipe:
        found = policy.recipe(network, measured, budget, task, 1.0)
        return Recipe(found.policy, (), (), step="constant", steps=0, head=found.head, views=_views(found))

    def _views(found: Recipe) -> int:
        for views in range(found.views, LEAST_VIEWS - 1, -1) if time.speed else ():
            # Clean images, views, and as long again as one view takes for the plan and the head itself.
            if (2 + views) * task.n_support * network.macs * time.speed.forward <= time.left():
                return views
        return 1

    alone = Policy(
        policy.name, recipe, policy.citation, shrinks=False, macs_limited=policy.macs_limited, trains=False
    )
    return Planner(network, task, alone, planner.budget)
