"""The time of one adaptation: how fast this machine computes, what is left, and how to spend it.

Before anything is trained, MACs and the speed that Fisher scoring had on this machine say whether only a head
is fitted, or with how many MACs training goes on. How many steps the time allows is decided when training
begins, and once more when the first step is over.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

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
from tinytrain.runtime.schedule import rate_factor

SURE = 0.25  # of the time must be over before few images are believed to say how long all of them take
# Of the time, kept for what is counted in no MACs: the guard, and steps that take longer than others.
RESERVE = 0.03
# Fractions of the steps that the policy would make, chosen on domains that are no targets: with fewer steps
# than the first, a head is hardly worse; below the second, more but cheaper steps are just as accurate
# (`meta.studies.operations`, `meta.studies.seconds`).
WORTH_TRAINING, WORTH_MACS = 0.1, 0.4
# Passes over all images before which nothing is trained: clean ones, cached views, and what a plan takes.
LEAST_PASSES = 1 + Recipe.views + 3
# How much faster than Fisher scoring passes are that take several images at once, as they do from a cache.
# This is corrected when heads were fitted.
SEVERAL = 1.5


class Speed(NamedTuple):
    """Seconds of a MAC: in forward passes, and in those for gradients."""

    forward: float
    gradients: float


class NoTimeError(Exception):
    """What is left of the time is not enough for what is going on."""


class TimeBudget:
    """`seconds` from now on, or from the first pass of scoring on: before it and in its first image, kernels
    are loaded.

    Decisions depend on the values of the clock `now` alone. `speed` is None until it was measured. What is
    said names the seconds that were `asked`, of which these may be a part.
    """

    def __init__(self, now: Callable[[], float], seconds: float, asked: float | None = None):
        self._now, self.seconds, self.asked, self.speed = now, seconds, asked or seconds, None
        self._start = now()
        self._readings: list[float] = []  # before the first step of training, and after each one
        self._aside = 0.0  # what is no part of the adaptation

    def used(self) -> float:
        """Seconds since the start."""
        return self._now() - self._start - self._aside

    def left(self) -> float:
        """Seconds that may be spent."""
        return (1 - RESERVE) * self.seconds - self.used()

    # ---- scoring ------------------------------------------------------------------------------

    def run(self, runner, stage: str, *later: str) -> None:
        """Run a `stage` of a `runner` that goes over all images, forward passes first, and measure the speed.

        Raises NoTimeError as soon as it is clear that too little would be left for training after it and
        after those that come `later`.
        """
        if not self.speed:
            self._start = self._now()
        program = runner.program
        macs, *others = (_macs_of(program, name) for name in (stage, *later))
        after = sum(others) + least_macs(program.network, program.task)
        if self.speed and (macs + after) * self.speed.forward > self.left():
            raise NoTimeError
        found = self._timed(runner, stage, macs, after)
        self.speed = Speed(self.speed.forward if self.speed else found, found)

    def _timed(self, runner, stage: str, macs: int, after: int) -> float:
        """Seconds of a MAC of a stage with so many, before which `after` others are to come."""
        begun, each = self.used(), 0.0

        def on_progress(done: int, total: int) -> None:
            nonlocal each
            used = self.used()
            if done == 1:  # it contains the loading of kernels
                self._aside += used - begun
                return
            each = (used - begun) / (done - 1)
            rest = each * (total - done + after * total / macs)
            if rest > self.left() and used > SURE * self.seconds:
                raise NoTimeError

        runner.progress = on_progress
        try:
            runner.run(stage)
        finally:
            runner.progress = None
        return each * runner.program.task.n_support / macs

    # ---- training -----------------------------------------------------------------------------

    def begin(self, program: Program, heads: float) -> None:
        """Training begins, after `heads` seconds of fitting heads."""
        before, after = (_macs_of(program, f"head {when}") for when in ("before", "after"))
        found, known = heads / before, self.speed or Speed(heads / before, heads / before)
        # Gradients are faster than they were, too, if passes take several images at once.
        speed = Speed(found, known.gradients * min(1.0, found / known.forward))
        self._tail, self._expected = heads * after / before, step_seconds(program, speed)
        self._most, self._readings = program.recipe.n_steps, [self._now()]

    def fitted(self, recipe: Recipe, sets: int, done: int) -> Recipe:
        """`recipe` for the steps that the time allows, when `done` of them are over.

        Their number may change as long as the learning rates of the steps that are over stay what they were:
        after the first one at least, whose real time is then known. Later, training ends if the time is up.
        """
        if done:
            self._readings.append(self._now())
        fitting = done + max(0, int((self.left() - self._tail) / self._each()))
        steps = max(1, min(self._most, fitting))
        free = not recipe.options.resample_channels  # otherwise bytes depend on the steps
        if fitting and free and _same_so_far(recipe, replace(recipe, steps=steps), sets, done):
            return replace(recipe, steps=steps)
        if fitting <= done < recipe.n_steps:
            return replace(recipe, options=replace(recipe.options, last_step=done))
        return recipe

    def _each(self) -> float:
        """Seconds of a step. The first one counts only as long as there is no other."""
        times = [b - a for a, b in zip(self._readings, self._readings[1:], strict=False)]
        times = times[1:] or times
        return sum(times) / len(times) if times else self._expected

    # ---- afterwards ---------------------------------------------------------------------------

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is done inside takes none of the time."""
        begun = self._now()
        yield
        self._aside += self._now() - begun

    def end(self) -> None:
        """The adaptation is over."""
        self.total = self.used()

    def warnings(self, recipe: Recipe, wanted: bool) -> tuple[str, ...]:
        """What the time took away of training, if that was `wanted`."""
        lines, given = [], f"{self.asked:g} s"
        if not wanted:
            pass
        elif not recipe.n_steps:
            lines.append(f"{given} are too short to train anything: only the head was fitted")
        elif recipe.options.last_step is not None:
            lines.append(
                f"the {given} were up after {recipe.n_steps} of {recipe.steps} steps: training ended"
            )
        return (*lines, *late(self.total, self.asked))


def late(used: float, asked: float) -> tuple[str, ...]:
    """What there is to say of an adaptation that took more seconds than were asked."""
    return (f"the adaptation took longer than {asked:g} s",) if used > asked else ()


def in_time(planner: Planner, scores: Scores | None, time: TimeBudget | None) -> Planner:
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
        other = planner.of(budget=replace(planner.budget, macs=fraction))
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


def expected(plan: Plan, program: Program, time: TimeBudget) -> Plan:
    """`plan` with as many steps as should fit into the time."""
    if not plan.recipe.updates or plan.recipe.options.resample_channels or time.speed is None:
        return plan
    steps = min(plan.recipe.n_steps, max(1, steps_in(program, time)))
    return replace(plan, recipe=replace(plan.recipe, steps=steps))


def _head_alone(planner: Planner, scores: Scores, time: TimeBudget) -> Planner:
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
    return Planner(network, task, alone, planner.budget, planner.programs)


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


def steps_in(program: Program, time: TimeBudget) -> int:
    """Training steps that fit into what is left of the time, beside everything else."""
    gain = SEVERAL if program.resources.micro > 1 else 1
    left = time.left() - fixed_macs(program) * time.speed.forward
    return max(0, int(left / (step_seconds(program, time.speed) / gain)))


def _macs_of(program: Program, stage: str) -> int:
    return max(1, sum(stage_macs(program, s) for s in program.stages if s.name == stage))


def _same_so_far(one: Recipe, other: Recipe, sets: int, done: int) -> bool:
    """Whether the learning rates of the first `done` steps are the same."""
    return all(rate_factor(one, sets, n) == rate_factor(other, sets, n) for n in range(1, done + 1))
