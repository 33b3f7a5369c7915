"""The whole chain on one screen: probe, policy, plan, arena, training, head, report."""

import os
from dataclasses import replace
from numbers import Integral

import numpy as np

from tinytrain.base.errors import AdaptationRefusedError, UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.delta.delta import Delta
from tinytrain.episode.augment import draw
from tinytrain.episode.episode import Episode
from tinytrain.guard.guard import Evidence, judge
from tinytrain.heads.leave_one_out import macs
from tinytrain.kernels.blas import one_thread
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.scores import Scores
from tinytrain.planner.feasible import probe_inside
from tinytrain.planner.fit import fit
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy
from tinytrain.program.buffers import AFTER, BEFORE, RESULT
from tinytrain.program.program import Fit
from tinytrain.report import Report
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.fisher import measure_fisher
from tinytrain.runtime.machine import Machine
from tinytrain.runtime.runner import Source
from tinytrain.runtime.session import Progress, Session


def silent(stage: str, done: int, total: int, loss: float | None) -> None:
    """The progress callback that shows nothing."""


def adapt(
    network: Network,
    episode: Episode,
    budget: Budget | None = None,
    policy: str | Policy = "tinytrain",
    seed: int = 0,
    lanes: int | None = None,
    progress: Progress = silent,
    backend: str = "auto",
    rate_scale: float = 1.0,
    machine: Machine | None = None,
    force: bool = False,
) -> Report:
    """Adapt `network` to `episode` inside `budget`; the network itself is not changed.

    `lanes` is the most images worked on at once (default: the number of cores); it never changes
    the result, which is `report.delta`; ``report.to_json()`` is what the command line prints.
    `rate_scale` times the learning rates of the policy are used; `machine` (default: this computer with
    the kernels of `backend`) is what it runs on.
    `report.guard` says whether the adaptation was kept. Where it was not, the delta holds cosine prototypes
    for the network as it was, and nothing else; `force` keeps all that can be kept.
    Raises BudgetError when nothing fits, InputError for an unsuitable network or images, UsageError for an
    unknown policy or a `rate_scale` that is not above 0, AdaptationRefusedError where even the network as it
    is gives NaN or infinity.
    """
    _check_arguments(budget, seed, lanes)
    budget, policy = budget or Budget(), find_policy(policy).with_rates(rate_scale)
    machine = machine or Machine(backend)
    kernels, clock, lanes = machine.kernels(), machine.clock(), lanes or os.cpu_count() or 1
    # Overflow is no news to be printed: the guard looks at every number.
    with one_thread(), np.errstate(all="ignore"):
        working = WorkingCopy(network)
        scores, fitted = plan_adaptation(
            network, working, kernels, policy, episode, budget, seed, clock, machine
        )
        if fitted.program.network is not network:  # the plan adds lite residual modules
            working = WorkingCopy(fitted.program.network)
        program, arena = machine.memory(fitted.program)
        session = Session(replace(fitted, program=program), arena, working, kernels, episode, seed, lanes)
        try:
            delta, evidence, guard, answers = run_session(session, network, force, progress, clock)
        finally:
            session.close()
    return Report(
        network, episode, budget, policy, seed, lanes, kernels.backend,
        fitted, scores, evidence.losses, *answers[:3], clock.seconds, delta, guard, answers[3],
        _warnings(network, policy, scores, fitted),
    ).sealed()  # fmt: skip


def _check_arguments(budget, seed, lanes=None) -> None:
    if not isinstance(budget, Budget | None):
        raise UsageError("bad-budget", f"{budget!r} is no budget; give Budget(memory=1_000_000), for example")
    for name, value, least in (("seed", seed, 0), ("lanes", 1 if lanes is None else lanes, 1)):
        if not isinstance(value, Integral) or value < least:
            raise UsageError("usage", f"{name}={value!r} is no whole number of at least {least}")


def make_plan(
    network: Network,
    episode: Episode,
    budget: Budget | None = None,
    policy: str | Policy = "tinytrain",
    seed: int = 0,
    backend: str = "auto",
) -> tuple[Scores | None, Fit]:
    """What `adapt` would train, without training it. Raises as `adapt` does."""
    _check_arguments(budget, seed)
    machine, policy, budget = Machine(backend), find_policy(policy), budget or Budget()
    with one_thread(), np.errstate(all="ignore"):
        working = WorkingCopy(network)
        return plan_adaptation(
            network, working, machine.kernels(), policy, episode, budget, seed, machine.clock(), machine
        )


def plan_adaptation(
    network, working, kernels, policy, episode, budget, seed, clock, machine: Machine | None = None
) -> tuple[Scores | None, Fit]:
    """Fisher information for this task, and the plan that fits the budget. Raises BudgetError, InputError."""
    network.check_finite()
    task = TaskShape(len(episode.support), episode.n_way, len(episode.query))
    scores = run_probe(network, working, kernels, policy, episode, budget, task, seed, machine)
    clock.lap("probe")
    fitted = fit(network, policy, scores, budget, task)
    clock.lap("plan")
    return scores, fitted


def run_session(session: Session, network: Network, force: bool, progress: Progress, clock) -> tuple:
    """Train, judge the result and answer the queries: (delta, evidence, verdict, answers).

    The answers are four arrays of labels of the query images: by the recipe's head before training, by
    cosine prototypes before training, by what is kept, and what the guard withheld (or None). They and the
    arrays of the delta lie in the arena of the session, whose other pages are given back.
    """
    episode = session.episode
    heads_before, delta, evidence = _train(session, network, progress, clock)
    session.release(RESULT)
    clock.lap("head")
    query = episode.query
    answers = session.array("answers") if len(query) else np.empty((3, 0), np.int32)
    adapted, before_cosine, before = answers
    if evidence.finite:
        session.predict(answers[:1], delta.head)
    session.trainer.working.restore()
    session.predict(answers[1:], *heads_before)
    session.release(RESULT)
    # Last of all: what the verdict names takes memory that no plan knows of.
    guard = judge(evidence, episode.support, episode.class_names, force)
    if not guard.accepted:
        delta = replace(delta, slices=(), head=session.with_means(heads_before[0]))
    session.keep([*delta.arrays(), answers])
    clock.lap("queries")
    after, withheld = (adapted, None) if guard.accepted else (before_cosine, adapted)
    if not evidence.finite:
        withheld = None
    return delta, evidence, guard, (before, before_cosine, after, withheld)


def _train(session: Session, network: Network, progress, clock) -> tuple:
    """Heads before training (cosine, and the recipe's if it is needed), delta, evidence for the guard."""
    session.fill(progress)
    clock.lap("features")
    recipe = session.fit.recipe
    cosine, head_before = session.fit_heads(BEFORE)
    clock.lap("head")
    if not (cosine.is_finite() and head_before.is_finite()):
        raise AdaptationRefusedError(
            "not-finite",
            f"{network.name} as it is gives NaN or infinity for {len(session.labels)} support images; "
            "take another backbone",
        )
    losses = session.train(progress) if recipe.updates else []
    clock.lap("training")
    finite = bool(np.isfinite(losses).all())
    trained = finite and bool(losses)
    head = head_before if not recipe.updates else cosine
    if trained:
        head = session.fit_heads(AFTER)[1]
    # Features and workspaces are given back before the result is written down and judged.
    session.release(AFTER)
    delta = Delta(
        network.digest, network.name, session.slices() if trained else (), session.kept(head),
        session.episode.class_names, {},
    )  # fmt: skip
    before = session.array("left out (before)")
    after = session.array("left out (after)") if trained else None
    batch, size = session.fit.resources.step_support, network.embedding_size
    measured = macs(len(before), batch, len(delta.class_names), size) * (2 if trained else 1)
    finite = finite and delta.is_finite()
    return (cosine, head_before), delta, Evidence(losses, recipe.steps, finite, before, after, measured)


def _warnings(network: Network, policy: Policy, scores: Scores | None, fitted: Fit) -> tuple[str, ...]:
    """What the budget took away from the policy without anybody asking for it."""
    lines = []
    wanted = len(policy.inspects(network)) if scores else 0
    if scores and len(scores.fisher) < wanted:
        lines.append(f"the budget let {len(scores.fisher)} of {wanted} layers be measured, the deepest ones")
    if fitted.recipe.updates and not fitted.resources.sets:
        lines.append("the budget has no room for cached features; every step computes them again")
    return tuple(lines)


def run_probe(
    network, working, kernels, policy: Policy, episode, budget, task, seed, machine: Machine | None = None
) -> Scores | None:
    """Fisher information for this task, if the policy asks for it, inside the budget."""
    program, spec = probe_inside(network, policy, budget, task), network.input
    if program is None:
        return None

    def augmentation(view: int, i: int):
        return draw(rng_for(seed, "probe", i), spec.size, episode.may_flip) if view else None

    support = episode.support
    source = Source(lambda i: support.image(i, spec.shape), augmentation, support.labels)
    return measure_fisher(program, working, kernels, source, machine)
