"""Does a policy keep its promises? For policies of your own, before they are compared with others.

    from tinytrain.pipeline.policy_conformance import check_policy
    check_policy(my_policy, network, episode)

A policy is a pure function: the same network, scores, budget, task and share give the same recipe, and
nothing that it was given changes. At the smallest budget that it names and at any larger one there is a
plan that fits. A policy that calls itself `macs_limited` keeps the MAC budget as well.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import BudgetError
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Episode
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.conformance import ConformanceError, blamed, demand
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import full_backward_macs, image_macs, n_trained
from tinytrain.plan.plan import Plan
from tinytrain.plan.recipe import Recipe, check_recipe
from tinytrain.plan.scores import Scores
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.runtime.device import Device

MACS = (0.05, 0.15, 0.5)
SHARES = (1.0, 0.5, 0.1, 0.0)
STEPS = 2  # of the adaptations that are run


@dataclass(frozen=True)
class Conformance:
    """What was seen: the `smallest` budget in bytes, and the (budget, arena) bytes of every plan."""

    policy: str
    smallest: int
    plans: tuple[tuple[int, int], ...]


def check_policy(
    policy: Policy, network: Network, episode: Episode, sizes: int = 30, macs: float = 0.15, seed: int = 0
) -> Conformance:
    """Put `policy` through everything above, at `sizes` memory budgets for `network` and `episode`.

    Channels are judged by made-up Fisher information, drawn by `seed`. Two short adaptations are run at the
    smallest budget, the rest is planning. Raises ConformanceError.
    """
    before, task = fingerprint(network), TaskShape.of(episode)
    with _blamed(policy, "at its MAC budgets"):
        _check_recipes(policy, network, task, seed)
    _demand(fingerprint(network) == before, policy, "changes the network that it is given")
    with _blamed(policy, "where the smallest budget is asked for"):
        smallest = _smallest(policy, network, task, macs, seed)
    plans = []
    largest = max(4 * smallest, 8_000_000)
    for memory in np.geomspace(smallest, largest, sizes).astype(int).tolist():
        with _blamed(policy, f"at {memory} bytes, although {smallest} are said to be enough"):
            plans.append((memory, _plan(policy, network, Budget(memory, macs), task, seed).cost.arena))
    for memory, arena in plans:
        _demand(arena <= memory, policy, f"plans an arena of {arena} bytes in a budget of {memory}")
    with _blamed(policy, f"when adapting in its smallest budget of {smallest} bytes"):
        _check_runs(policy, network, episode, Budget(smallest, macs), seed)
    _demand(fingerprint(network) == before, policy, "changes the network that it is given")
    return Conformance(policy.name, smallest, tuple(plans))


def fingerprint(network: Network) -> str:
    """sha256 over the bytes that a network has now; `Network.digest` is computed once and kept."""
    arrays = (*network.weights, *network.biases, *(s for s in network.scales if s is not None))
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()


def _demand(holds: bool, policy: Policy, otherwise: str) -> None:
    demand(holds, f"policy {policy.name}", otherwise)


def _blamed(policy: Policy, where: str):
    return blamed(f"policy {policy.name}", where)


def made_up(network: Network, layers: tuple[int, ...], seed: int) -> Scores:
    """Random Fisher information of `layers`, of images that are a random bit alike."""
    rng = rng_for(seed, "made-up scores")
    fisher = {i: rng.random(network.layers[i].cout).astype(np.float32) for i in layers}
    return Scores(fisher, 1.0, 0, 0, rng.random())


def _check_recipes(policy: Policy, network: Network, task: TaskShape, seed: int) -> None:
    """Recipes that the network can follow, inside the MAC budget, and the same when asked for again."""
    layers = policy.inspects(network) if policy.inspects else ()
    asked = []
    for macs in MACS:
        numbers = []
        for share in SHARES:
            scores = made_up(network, layers, seed) if layers else None
            arguments = (network, scores, Budget(10**6, macs), task, share)
            asked.append((arguments, policy.recipe(*arguments)))
            _check_one(policy, network, asked[-1][1], macs)
            numbers.append(n_trained(network, asked[-1][1].updates))
        falls = numbers == sorted(numbers, reverse=True)
        _demand(falls, policy, f"trains {numbers} numbers at the shares {SHARES}: less share, more numbers")
    for arguments, recipe in reversed(asked):
        again = policy.recipe(*arguments)
        _demand(again == recipe, policy, "makes another recipe of the same arguments when asked again")
    fresh = made_up(network, layers, seed).fisher
    for (_, scores, *_), _ in asked:
        same = scores is None or all(np.array_equal(fresh[i], scores.fisher[i]) for i in layers)
        _demand(same, policy, "changes the Fisher information that it is given")


def _check_one(policy: Policy, network: Network, recipe: Recipe, macs: float) -> None:
    check_recipe(network, recipe)
    _demand(recipe.policy == policy.name, policy, f"calls its recipe {recipe.policy}")
    limit = macs * full_backward_macs(network)
    cost = _macs_of(policy, network, recipe) if recipe.updates else 0
    _demand(
        not policy.macs_limited or cost <= limit * (1 + 1e-9), policy,
        f"spends {cost:.0f} backward MACs where {limit:.0f} ({macs:.0%}) are allowed",
    )  # fmt: skip


def _macs_of(policy: Policy, network: Network, recipe: Recipe) -> float:
    """Backward MACs that the budget limits: of one image, or per pseudo-query of as many as one likes."""
    image = image_macs(network, recipe.updates)
    if policy.macs_of_image:
        return image
    sampled = recipe.options.sampled_fraction if recipe.step == "both" else 0
    return image * (recipe.options.hard_fraction + sampled)


def _plan(policy: Policy, network: Network, budget: Budget, task: TaskShape, seed: int) -> Plan:
    """What `adapt` does before anything runs."""
    planner = Planner(network, task, policy, budget)
    program = planner.probe()
    return planner.plan(made_up(network, program.inspected, seed) if program else None)


def _smallest(policy: Policy, network: Network, task: TaskShape, macs: float, seed: int) -> int:
    """The budget that a refusal names; one byte less must be refused with the same figure."""
    named = _refused(policy, network, Budget(1, macs), task, seed)
    again = _refused(policy, network, Budget(named - 1, macs), task, seed)
    _demand(again == named, policy, f"names {named} bytes as enough, and {again} when {named - 1} are given")
    return named


def _refused(policy: Policy, network: Network, budget: Budget, task: TaskShape, seed: int) -> int:
    try:
        _plan(policy, network, budget, task, seed)
    except BudgetError as error:
        if error.smallest is None:
            raise
        return error.smallest
    raise ConformanceError(
        f"policy {policy.name} has a plan for {budget.memory} bytes, below its own minimum"
    )


def _check_runs(policy: Policy, network: Network, episode: Episode, budget: Budget, seed: int) -> None:
    def short(*arguments):
        recipe = policy.recipe(*arguments)
        return replace(recipe, steps=min(STEPS, recipe.steps))

    brief = replace(policy, recipe=short)
    runs = [adapt(network, episode, budget, brief, seed, Device(threads=n), force=True) for n in (1, 2)]
    bare = [encode_delta(replace(run.delta, report={})) for run in runs]
    _demand(bare[0] == bare[1], policy, "does not give the same bytes twice")
