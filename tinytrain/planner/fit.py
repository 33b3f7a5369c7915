"""From a recipe and a byte budget to a program that fits: cache less, then train less, until it does.

Nothing is estimated: every candidate is compiled and placed, and its arena is compared with the
budget. The order of retreat: fewer cached views, smaller micro-batches, one gradient
accumulator and one lane; then no cache (features are computed again in every step); then a smaller selection;
then an optimizer with fewer moments.
"""

from collections.abc import Iterator
from dataclasses import replace

from tinytrain.base.errors import BudgetError
from tinytrain.base.units import format_bytes
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import backward_macs_per_query, full_backward_macs, image_macs
from tinytrain.plan.recipe import Recipe, Resources, check_recipe
from tinytrain.plan.scores import Scores
from tinytrain.policies.common import FRACTIONS, Policy
from tinytrain.program.autodiff.emitter import BAND_BYTES
from tinytrain.program.compile import compile_training
from tinytrain.program.program import Fit, Program
from tinytrain.program.segments import SegmentBank

STEP_IMAGES = 50  # support images of one step when there are more of them
# (gradient accumulators, lanes, images per call), fastest first.
WORKERS = ((2, 2, 5), (2, 2, 2), (2, 2, 1), (1, 2, 1), (1, 1, 2), (1, 1, 1))
LEAST_VIEWS = 3  # with fewer cached views, fresh ones are computed in every step
# Bytes of what is computed in bands, where there is room for more than the usual ones.
WIDE_BANDS = (224_000, 112_000)
# The usual ones, where there is room for other ways that take more bytes (`Emitter.roomy`).
ROOMY_BANDS = (*WIDE_BANDS, BAND_BYTES)
CHEAPER = {"adam": ("adam", "momentum", "sgd"), "momentum": ("momentum", "sgd"), "sgd": ("sgd",)}


def step_sizes(task: TaskShape) -> tuple[int, ...]:
    """Support images of one step, preferred size first: all of them, or a subset with every class in it."""
    if task.n_support <= STEP_IMAGES:
        return (task.n_support,)
    return tuple(dict.fromkeys((max(STEP_IMAGES, task.n_way), task.n_way)))


def ladder(recipe: Recipe, task: TaskShape) -> Iterator[Resources]:
    """Resources in order of preference."""
    for size in step_sizes(task):
        for views in range(recipe.views, LEAST_VIEWS - 1, -1):
            for partitions, lanes, micro in WORKERS:
                yield Resources(1 + views, min(micro, size), partitions, size, size, lanes)
        for sets in (1, 0):
            for partitions in (2, 1):
                yield Resources(sets, 1, partitions, size, size)


def smallest(task: TaskShape) -> tuple[Resources, Resources]:
    """One lane, one image at a time, with nothing cached and with the least that is cached.

    Either can be the smaller one: without a cache the frozen part needs its workspace while training.
    """
    size = step_sizes(task)[-1]
    return Resources(0, 1, 1, size, size), Resources(1 + LEAST_VIEWS, 1, 1, size, size)


def fit(network: Network, policy: Policy, scores: Scores | None, budget: Budget, task: TaskShape) -> Fit:
    """The first candidate whose arena is inside the budget.

    Raises BudgetError naming the smallest feasible budget, and the smallest one at which the
    policy keeps its defaults.
    """
    for share in FRACTIONS if policy.shrinks else (1.0,):
        wanted = policy.recipe(network, scores, budget, task, share)
        check_recipe(network, wanted)
        check_macs(network, policy, wanted, budget, step_sizes(task)[0])
        for optimizer in CHEAPER[wanted.optimizer]:
            recipe = replace(wanted, optimizer=optimizer)
            found = _fit_recipe(network, recipe, budget.memory, task)
            if found:
                # A small step rounds its share of the images up to one.
                check_macs(network, policy, recipe, budget, found.resources.step_queries)
                return found
            if optimizer == wanted.optimizer and share > 0 and policy.shrinks:
                break  # a smaller selection is tried before a poorer optimizer
    raise infeasible(network, policy, scores, budget, task)


def _fit_recipe(network: Network, recipe: Recipe, memory: int, task: TaskShape) -> Fit | None:
    bank = SegmentBank(network, recipe)

    def inside(resources: Resources) -> Program | None:
        return compile_training(network, recipe, resources, task, bank, memory)

    if not any(map(inside, smallest(task))):
        return None
    for resources in (*ladder(recipe, task), *smallest(task)):
        if program := inside(resources):
            return Fit(_fastest(program, memory), recipe, resources)
    return None


def _fastest(program: Program, memory: int) -> Program:
    """The same program in the fastest way for which bytes are left, all of it or nothing."""
    recipe, resources, task = (program.recipe, program.resources, program.task)
    for band in ROOMY_BANDS:
        bank = SegmentBank(program.network, recipe, band)
        if faster := compile_training(program.network, recipe, resources, task, bank, memory):
            return faster
    return program


def smallest_budget(network: Network, policy: Policy, scores, budget: Budget, task: TaskShape) -> int:
    """Bytes of the smallest arena in which the policy trains anything at all."""
    least = policy.recipe(network, scores, budget, task, 0.0 if policy.shrinks else 1.0)
    recipe = replace(least, optimizer="sgd")
    bank = SegmentBank(network, recipe)
    return min(compile_training(network, recipe, r, task, bank).nbytes for r in smallest(task))


def usual_budget(network: Network, policy: Policy, scores, budget: Budget, task: TaskShape) -> int:
    """Bytes from `budget` on that hold all channels and cached views of the policy, with its optimizer.

    A policy may ask for more where there is more, so its wish is followed up. How many images are computed
    at a time is not among it: that makes a plan faster and nothing else.
    """
    while True:
        recipe = policy.recipe(network, scores, budget, task, 1.0)
        bank = SegmentBank(network, recipe)
        whole = _unreduced(recipe, task)
        needed = min(compile_training(network, recipe, r, task, bank).nbytes for r in whole)
        if needed <= budget.memory:
            return budget.memory
        budget = replace(budget, memory=needed)


def _unreduced(recipe: Recipe, task: TaskShape) -> list[Resources]:
    """Those of `ladder` that cache all views and take all images into a step."""
    most = next(ladder(recipe, task))
    same = (most.sets, most.step_support)
    return [r for r in ladder(recipe, task) if (r.sets, r.step_support) == same]


def infeasible(
    network, policy: Policy, scores, budget: Budget, task: TaskShape, probe: int = 0
) -> BudgetError:
    """The error to raise; `probe` is the bytes of a probe that must fit as well."""
    least = max(probe, smallest_budget(network, policy, scores, budget, task))
    usual = usual_budget(network, policy, scores, replace(budget, memory=least), task)
    # What is selected depends on the images, of which nothing may have been measured yet: that made 4 % at
    # most for ten tasks with each of three networks (a trial that no command repeats).
    usual = f"about {format_bytes(usual)}" if scores else usual
    return BudgetError(
        "memory-budget",
        f"{network.name} with {task.n_support} support images and policy {policy.name} needs {least} bytes "
        f"at the least, the budget is {budget.memory}; give --budget {least} or more "
        f"({usual} keeps all defaults)",
        least,
    )


def check_macs(network: Network, policy: Policy, recipe: Recipe, budget: Budget, queries: int) -> None:
    """Raise BudgetError if a policy that promises to obey the MAC budget does not, at `queries` in a step."""
    if not policy.macs_limited or not recipe.updates:
        return
    limit = budget.macs * full_backward_macs(network)
    cost = image_macs(network, recipe.updates)
    if budget.macs_mode == "mean" and not policy.macs_of_image:
        cost = backward_macs_per_query(network, recipe, queries)
    if cost > limit * (1 + 1e-9):
        needed = cost / full_backward_macs(network) + 0.005
        raise BudgetError(
            "macs-budget",
            f"policy {policy.name} needs {cost:.0f} backward MACs per pseudo-query, the budget is "
            f"{limit:.0f} ({budget.macs:.0%}); give --macs {needed:.0%} or more",
        )
