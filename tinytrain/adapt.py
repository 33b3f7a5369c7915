"""The whole chain on one screen: probe, policy, plan, arena, training, head, result."""

import os
import time
from dataclasses import dataclass

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.arena import Arena
from tinytrain.augment import draw
from tinytrain.blas import one_thread
from tinytrain.compile import AFTER, BEFORE, compile_probe
from tinytrain.delta import Delta, trained_slices
from tinytrain.engine import WorkingCopy
from tinytrain.episode import Episode
from tinytrain.fit import fit, infeasible
from tinytrain.network import Network
from tinytrain.plan import Budget, TaskShape
from tinytrain.policies import POLICIES
from tinytrain.policies.common import Policy
from tinytrain.probe import Scores, probe
from tinytrain.seeds import rng_for
from tinytrain.session import Progress, Session


def silent(stage: str, done: int, total: int, loss: float | None) -> None:
    """The progress callback that shows nothing."""


@dataclass(frozen=True, eq=False)
class Adaptation:
    """What `adapt` found out: the delta, predictions on the queries, and everything a report needs."""

    delta: Delta
    fit: object
    scores: Scores | None
    losses: list[float]
    before: np.ndarray
    before_cosine: np.ndarray
    after: np.ndarray
    seconds: dict[str, float]


def adapt(
    network: Network,
    episode: Episode,
    budget: Budget | None = None,
    policy: str = "tinytrain",
    seed: int = 0,
    lanes: int | None = None,
    progress: Progress = silent,
    backend: str = "auto",
) -> Adaptation:
    """Adapt `network` to `episode` inside `budget`; the network itself is not changed.

    `lanes` is the most pictures worked on at once (default: the number of cores); it never changes
    the result. Raises BudgetError when nothing fits, InputError for unsuitable pictures.
    """
    budget, chosen = budget or Budget(), POLICIES[policy]
    kernels = kernel_table.load(backend)
    task = TaskShape(len(episode.support), episode.n_way)
    clock = _Clock()
    with one_thread():
        working = WorkingCopy(network)
        scores = run_probe(network, working, kernels, chosen, episode, budget, task, seed)
        clock.lap("probe")
        plan = fit(network, chosen, scores, budget, task)
        clock.lap("plan")
        session = Session(
            plan, Arena(plan.program.nbytes), working, kernels, episode, seed, lanes or os.cpu_count() or 1
        )
        try:
            return _run(session, network, working, episode, scores, progress, clock)
        finally:
            session.close()


def _run(session, network, working, episode, scores, progress, clock) -> Adaptation:
    session.fill(progress)
    clock.lap("features")
    head_before = session.fit_head("head before", BEFORE)
    clock.lap("head")
    losses = session.train(progress) if session.fit.recipe.updates else []
    clock.lap("training")
    head = session.fit_head("head after", AFTER) if losses else head_before
    clock.lap("head")
    after_embeddings = session.embed_pictures(episode.query)
    slices = trained_slices(session.trainer.slots, session.trainer.trained) if losses else ()
    restore(working, network)
    before_embeddings = session.embed_pictures(episode.query)
    clock.lap("queries")
    delta = Delta(network.digest, network.name, slices, head, episode.class_names, {})
    unit = head_before.means / np.linalg.norm(head_before.means, axis=1, keepdims=True)
    return Adaptation(
        delta,
        session.fit,
        scores,
        losses,
        head_before.logits(before_embeddings).argmax(axis=1),
        (before_embeddings @ unit.T).argmax(axis=1),
        head.logits(after_embeddings).argmax(axis=1),
        clock.seconds,
    )


def restore(working: WorkingCopy, network: Network) -> None:
    """The backbone's own values back into the working copy."""
    for i, bias in enumerate(network.biases):
        np.copyto(working.weights[i], network.float_weight(i))
        np.copyto(working.biases[i], bias)


def run_probe(network, working, kernels, policy: Policy, episode, budget, task, seed) -> Scores | None:
    """Fisher information for this task, if the policy asks for it, inside the budget."""
    if policy.inspects is None:
        return None
    inspected = policy.inspects(network)
    program = compile_probe(network, inspected, task)
    if program.nbytes > budget.memory:
        raise infeasible(network, policy, None, budget, task)
    size = network.preprocessing.size

    def augmentation(i):
        return draw(rng_for(seed, "probe", i), size, episode.may_flip)

    return probe(
        network, working, kernels, inspected, episode.support.labels, episode.n_way,
        lambda i: episode.support.read(i, size), augmentation, program,
    )  # fmt: skip


class _Clock:
    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
