"""From scores and a budget to a plan that fits: cache less, then train less, until it does.

Nothing is estimated: every candidate is compiled and placed, and its arena is compared with the budget. The
order of retreat: fewer cached views, smaller micro-batches, one worker; then no cache (features are computed
again in every step); then a smaller selection; then an optimizer with fewer moments. Bytes that are left go
to larger row tiles, then to more workers, however many cores there are.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from tinytrain.base.errors import BudgetError, InputError, UsageError
from tinytrain.base.units import as_option
from tinytrain.network.network import Network
from tinytrain.plan.budget import AUTO, Budget, TaskShape
from tinytrain.plan.costs import backward_macs_per_query, image_macs, macs_of
from tinytrain.plan.plan import MAKE, Cost, Plan, check_macs
from tinytrain.plan.recipe import MOST_WORKERS, Recipe, Resources, check_recipe
from tinytrain.plan.scores import Scores
from tinytrain.planner.candidates import (
    ROW_TILES,
    WIDE_TILES,
    Programs,
    candidates,
    retreats,
    smallest,
    step_sizes,
    unreduced,
)
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy, policy_for
from tinytrain.program.backend import Backend
from tinytrain.program.backends.registry import CHOSEN, find_backend
from tinytrain.program.program import Program

CHEAPER = {"adam": ("adam", "momentum", "sgd"), "momentum": ("momentum", "sgd"), "sgd": ("sgd",)}


class Planner:
    """Plans for one network, task and budget by a policy; every candidate is compiled once.

    `policy` is a name or a `Policy`. A `Plan` in its place is checked and obeyed; `budget` is then its own by
    default. `programs` is what another planner of this network and task has compiled. Raises UsageError for
    what is no budget, for an unknown policy or backend, and for a plan in one that this network cannot
    run in; and what `Plan.check` raises. Nothing is compiled before a method is called.
    """

    def __init__(
        self,
        network: Network,
        task: TaskShape,
        policy: str | Policy | Plan,
        budget: Budget | None = None,
        programs: Programs | None = None,
    ):
        if not isinstance(budget, Budget | None):
            raise UsageError("usage", f"{budget!r} is no budget; give Budget(memory=1_000_000), for example")
        self.network, self.task, self.asked = network, task, policy
        self.given = policy if isinstance(policy, Plan) else None
        self.policy = None if self.given else policy_for(find_policy(policy), task.n_way)
        self.budget = budget or (self.given.budget if self.given else Budget())
        self._check_names()
        if self.given:
            self.given.check(network, task, self.budget)
            self._check_legal(find_backend(self.given.recipe.precision), self.given.recipe)
        self.wanted = self.policy.inspects(network) if self.policy and self.policy.inspects else ()
        self.seconds = None if self.given else self.budget.seconds
        self.programs = programs or Programs(network, task)

    def _check_names(self) -> None:
        """Raise UsageError or, for those in a plan, InputError unless there are backends of all names."""
        named = [self.given.recipe.precision] if self.given else []
        asked = (self.given or self).budget.precision
        try:
            for name in named + [asked] * (asked != AUTO):
                find_backend(name)
        except UsageError as error:
            if not self.given:
                raise
            raise InputError("file-damaged", f"the plan has {error.message}; make one with {MAKE}") from error

    def of(self, task: TaskShape | None = None, budget: Budget | None = None) -> "Planner":
        """The same for other sizes or another budget. What was compiled for these sizes need not be again."""
        task, budget = task or self.task, budget or self.budget
        if (task, budget) == (self.task, self.budget):
            return self
        programs = self.programs if task == self.task else None
        return Planner(self.network, task, self.asked, budget, programs)

    def within(self, seconds: float) -> "Planner":
        """The same for a part of the seconds of its budget."""
        found = copy(self)
        found.seconds = seconds
        return found

    def probe(self) -> Program | None:
        """The program of Fisher scoring; None if the policy asks for none.

        The shallowest layers, whose gradients are the largest, are left out until the rest fits the budget.
        Raises BudgetError if already the sizes say that it is too small.
        """
        if self.given:
            return self._probe(m, memory=self.budget.memory) if (m := self.given.recipe.measured) else None
        memory, guess = self.budget.memory, self.unmeasured()
        # Not what is chosen by the guess: that can take fewer bytes, but other channels may be measured best.
        trains = self._fits(self._least_recipe(guess))
        if trains and not self.wanted:
            return None
        if not self.wanted:
            raise self._refusal(guess)
        if trains:
            wide = (self._probe(self.wanted, tile, memory) for tile in (*WIDE_TILES, None))
            if fitting := next((program for program in wide if program.nbytes <= memory), None):
                return fitting

        def fits(skipped: int) -> bool:
            return self._probe(self.wanted[skipped:], memory=memory).nbytes <= memory

        most = len(self.wanted) - 1  # one layer at the least is measured
        least = bisect_left(range(most), True, lo=min(1, most), key=fits)
        if trains and fits(least):
            return self._probe(self.wanted[least:], memory=memory)
        raise self._refusal(guess, self._probe(self.wanted[least:]).nbytes)

    def _probe(self, inspected: tuple[int, ...], row_tile: int | None = None, memory: int = 0) -> Program:
        return self.programs.probe(inspected, self.precision, row_tile, memory)

    def plan(self, scores: Scores | None) -> Plan:
        """The first candidate whose arena is inside the budget, or the plan that was given.

        Raises BudgetError naming the smallest feasible budget, a sensible one, and the one that keeps all;
        InputError ``file-damaged`` for a given plan that takes other bytes than it says.
        """
        self.programs.forget_probe()
        if self.given:
            given, said = self.given, self.given.cost.arena
            taken = self.programs.nbytes(given.recipe, given.resources, given.row_tile)
            if said != taken:
                raise InputError(
                    "file-damaged", f"the plan says {said} bytes, it takes {taken}; make one with {MAKE}"
                )
            return replace(given, budget=self.budget, recipe=given.recipe.with_channels(scores))
        for share, kept in retreats(scores, self.policy.shrinks, self.backend.is_tight):
            wanted = self._recipe(kept, share)
            self._check_macs(wanted, step_sizes(self.task, self.backend.is_tight)[0])
            for optimizer in CHEAPER[wanted.optimizer]:
                if found := self._fitting(replace(wanted, optimizer=optimizer)):
                    # A small step rounds its share of the images up to one.
                    self._check_macs(found.recipe, found.resources.step_support)
                    return found
                if optimizer == wanted.optimizer and share > 0 and self.policy.shrinks:
                    break  # a smaller selection is tried before a poorer optimizer
        if self.backend.is_tight and (found := self._fitting(self._least_recipe(scores))):
            return found
        raise self._refusal(scores)

    def program(self, plan: Plan) -> Program:
        """The program of a plan that `plan` gave.

        Raises UsageError ``unsupported`` if features are to be kept and training begins at the image.
        """
        program = self.programs.training(plan.recipe, plan.resources, plan.row_tile)
        if self.task.replay and not program.purpose.start:
            raise UsageError(
                "unsupported",
                f"policy {plan.policy} trains from layer 0 on, so that only the images themselves could be "
                "remembered; leave out --replay, or take policy tinytrain",
            )
        return program

    def smallest_budget(self, scores: Scores | None) -> int:
        """Bytes of the smallest arena for training and for measuring the deepest layer before it."""
        probe = self._probe(self.wanted[-1:]).nbytes if self.wanted else 0
        return max(probe, self._smallest_training(scores))

    def advice(self, scores: Scores | None) -> dict[str, int]:
        """Three budgets in bytes, in rising order.

        "smallest" trains anything at all. "sensible" is the smallest that trains all channels the policy
        chooses, with its own optimizer: from there on more memory mainly makes it faster. "everything" also
        caches all views and takes all images into a step. How many images are computed at a time does not
        count: it changes no result.
        """
        smallest_budget = self.smallest_budget(scores)
        sensible = self._holding_all(scores, smallest_budget, lambda recipe: smallest(recipe, self.task))
        return {
            "smallest": smallest_budget,
            "sensible": sensible,
            "everything": self._holding_all(scores, sensible, lambda recipe: unreduced(recipe, self.task)),
        }

    def _holding_all(self, scores: Scores | None, memory: int, ways: Callable) -> int:
        """Bytes from `memory` on that hold the whole recipe of the policy in one of the ``ways(recipe)``.

        A policy may ask for more if there is more, so its wish is followed up.
        """
        while True:
            recipe = self._recipe(scores, 1.0, memory)
            needed = self._least(recipe, ways(recipe))
            if needed <= memory:
                return memory
            memory = needed

    def row_tile(self, recipe: Recipe, resources: Resources) -> int | None:
        """The largest row tile with which the program still fits; None for the usual one."""
        fits = partial(self._inside, recipe, resources)
        # The smallest first: mostly it does not fit, and then no larger one does.
        return next(filter(fits, ROW_TILES)) if fits(ROW_TILES[-1]) else None

    def warnings(self, plan: Plan, scores: Scores | None) -> tuple[str, ...]:
        """What the budget took away from the policy without anybody asking for it."""
        lines, wanted = [], len(self.wanted)
        if scores and len(scores.fisher) < wanted:
            lines.append(
                f"the budget let {len(scores.fisher)} of {wanted} layers be measured, the deepest ones"
            )
        first, taken = CHOSEN[0].name, plan.recipe.precision
        if self.budget.precision == AUTO and taken != first:
            lines.append(f"to fit the budget, everything is computed in {taken} instead of {first}")
        if plan.recipe.updates and not plan.recipe.fresh and not plan.resources.sets:
            lines.append("to fit the budget, features are computed again in every step, which takes longer")
        return tuple(lines)

    def _recipe(
        self, scores: Scores | None, share: float, memory: int | None = None, precision: str | None = None
    ) -> Recipe:
        """What the policy chooses, in the planner's `precision` by default."""
        precision = precision or self.precision
        budget = replace(self.budget, precision=precision)
        budget = budget if memory is None else replace(budget, memory=memory)
        recipe = self.policy.recipe(self.network, scores, budget, self.task, share)
        check_recipe(self.network, recipe)
        return recipe if recipe.precision == precision else recipe.in_precision(precision)

    @property
    def precision(self) -> str:
        """The name of the `backend`."""
        return self.backend.name

    @cached_property
    def backend(self) -> Backend:
        """What is computed in: that of the given plan, what the budget says, or float32 if there is room.

        Raises UsageError ``unsupported`` if the budget says one in which it is not possible.
        """
        if self.given:
            return find_backend(self.given.recipe.precision)
        guess = self.unmeasured()
        if self.budget.precision != AUTO:
            backend = find_backend(self.budget.precision)
            self._check_legal(backend, self._recipe(guess, 1.0, precision=backend.name))
            return backend
        recipes = {backend: self._recipe(guess, 1.0, precision=backend.name) for backend in CHOSEN}
        *others, last = (b for b, recipe in recipes.items() if not b.obstacle(self.network, recipe))
        return next((backend for backend in others if self._fits(recipes[backend])), last)

    def _check_legal(self, backend: Backend, recipe: Recipe) -> None:
        if obstacle := backend.obstacle(self.network, recipe):
            what = f"{self.network.name} cannot be adapted in {backend.name}: {obstacle}"
            raise UsageError("unsupported", f"{what}; take {CHOSEN[0].name}")

    def _inside(self, recipe: Recipe, resources: Resources, row_tile: int | None = None) -> bool:
        return self.programs.nbytes(recipe, resources, row_tile, self.budget.memory) is not None

    def _fits(self, recipe: Recipe) -> bool:
        """Whether `recipe` can be trained inside the budget, in the smallest way."""
        return any(self._inside(recipe, resources) for resources in smallest(recipe, self.task))

    def unmeasured(self, similarity: float = math.nan) -> Scores | None:
        """Scores by which every channel counts as much as any other."""
        alike = {i: np.ones(self.network.layers[i].cout, np.float32) for i in self.wanted}
        return Scores(alike, 0.0, 0, 0, similarity) if alike else None

    def _fitting(self, recipe: Recipe) -> Plan | None:
        """The first way to spend the bytes on `recipe`, in the largest row tiles that still fit."""
        if not self._fits(recipe):
            return None
        every = (*candidates(recipe, self.task), *smallest(recipe, self.task))
        resources = next(r for r in every if self._inside(recipe, r))
        row_tile = self.row_tile(recipe, resources)
        resources = self._with_workers(recipe, resources, row_tile)
        arena = self.programs.nbytes(recipe, resources, row_tile)
        cost = Cost(arena, *macs_of(self.network, recipe, resources, self.task))
        limit = "image" if self.policy.macs_of_image or self.budget.macs_mode == "sample" else "query"
        return Plan(
            self.network.name, self.network.digest, self.policy.name, self.budget, self.task, recipe,
            resources, cost, limit if self.policy.macs_limited else None, row_tile,
        )  # fmt: skip

    def _with_workers(self, recipe: Recipe, resources: Resources, row_tile: int | None) -> Resources:
        """`resources` with as many workers as still fit; no more than there are micro-batches."""
        batches = -(-resources.step_support // resources.micro)
        most = range(min(MOST_WORKERS, batches), resources.workers, -1)
        more = (replace(resources, workers=workers) for workers in most)
        return next((r for r in more if self._inside(recipe, r, row_tile)), resources)

    def _least(self, recipe: Recipe, ways) -> int:
        return min(self.programs.nbytes(recipe, resources) for resources in ways)

    def _smallest_training(self, scores: Scores | None) -> int:
        """Bytes of the smallest arena in which the policy trains anything at all."""
        recipe = self._least_recipe(scores)
        return self._least(recipe, smallest(recipe, self.task))

    def _least_recipe(self, scores: Scores | None) -> Recipe:
        """What takes the least memory of all that the policy may train: in int8 the last biases alone."""
        *_, (fraction, kept) = retreats(scores, self.policy.shrinks, self.backend.is_tight)
        least = self._recipe(kept, fraction, 0 if self.backend.is_tight else None)
        return replace(least, optimizer="sgd")

    def _refusal(self, scores: Scores | None, probe: int = 0) -> BudgetError:
        """The error to raise; `probe` is the bytes of Fisher scoring that must fit as well."""
        advice = self.advice(scores)
        least = max(probe, self._smallest_training(scores))
        sensible, everything = (max(least, advice[name]) for name in ("sensible", "everything"))
        # What is selected depends on the images, of which nothing may have been measured yet.
        about = "about " if scores else ""
        return BudgetError(
            "budget-too-small",
            f"{self.network.name} with {self.task.n_support} support images and policy {self.policy.name} "
            f"needs {least} bytes at the least, the budget is {self.budget.memory}; give --budget {least} or "
            f"more ({about}{as_option(sensible)} is sensible, {about}{as_option(everything)} keeps "
            f"everything){self._remembering(scores)}",
            least,
            self.task,
        )

    def _remembering(self, scores: Scores | None) -> str:
        """What of the bytes is for a replay memory, for a message."""
        if not self.task.replay:
            return ""
        least = self._recipe(scores, 0.0 if self.policy.shrinks else 1.0)
        nbytes = self.programs.replay_bytes(least)
        return (
            f", or remember less: {nbytes} of the bytes are for the features of {self.task.n_kept} images, "
            f"{self.task.replay} of each class"
        )

    def _check_macs(self, recipe: Recipe, images: int) -> None:
        """Raise BudgetError if the policy breaks its promise of MACs, in steps of so many images."""
        if not self.policy.macs_limited or not recipe.updates:
            return
        cost = image_macs(self.network, recipe.updates)
        if self.budget.macs_mode == "mean" and not self.policy.macs_of_image:
            cost = backward_macs_per_query(self.network, recipe, images)
        check_macs(f"policy {self.policy.name}", cost, self.budget, self.network)
