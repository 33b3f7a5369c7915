"""`adapt`, and a second look at labels that look wrong: does what is learnt of one half hold for the other?

Where a network tells classes apart poorly, right labels look as wrong ones do. But of right ones training
learns what other images confirm, and of wrong ones it does not.
"""

from dataclasses import replace

from tinytrain.base.errors import BudgetError
from tinytrain.episode.episode import Episode, folds
from tinytrain.guard.guard import Halves
from tinytrain.network.network import Network
from tinytrain.pipeline import adapt as adapting
from tinytrain.plan.budget import Budget
from tinytrain.plan.plan import Plan
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.report.report import NetworkReport
from tinytrain.runtime.answers import labels_of
from tinytrain.runtime.device import Device

LEAST_SHOTS = 3  # of each class


def adapt(
    network: Network,
    episode: Episode,
    budget: Budget | None = None,
    policy: str | Policy | Plan | Planner = "tinytrain",
    seed: int = 0,
    device: Device | None = None,
    force: bool = False,
    train: bool | None = None,
) -> NetworkReport:
    """As `pipeline.adapt`, once more if labels that it refuses hold when they are cross-validated.

    Each half of the images of each class is adapted to, and the other half is predicted. These adaptations
    run one after another, each inside the budget. There is none with a plan, a limit of time or replay, if a
    class has fewer than LEAST_SHOTS images, or if the budget is too small for a half: then the refusal
    stands, as it does if labels do not hold.
    """
    given = budget, policy, seed, device
    report = adapting.adapt(network, episode, *given, force, train)
    if not _is_open(report, policy):
        return report
    halves, seconds = Halves(), 0.0
    for half in folds(episode, seed, 2):
        try:
            right, spent = _right(adapting.adapt(network, half, *given, force=True))
        except BudgetError:  # in int8 fewer images may take more bytes
            return report
        halves, seconds = halves + right, seconds + spent
    if halves.hold(episode.n_way):
        first = _cost(report)
        del report  # its arena, before there is another
        halves, seconds = replace(halves, macs=halves.macs + first[0]), seconds + first[1]
        report = adapting.adapt(network, episode, *given, force, train, labels_hold=True)
    ran = replace(report.ran, seconds={**report.ran.seconds, "cross-validation": seconds})
    return replace(report, ran=ran, guard=halves.added_to(report.guard)).sealed()


def _is_open(report: NetworkReport, policy) -> bool:
    """Whether labels were refused, and a second look can be had."""
    planned = isinstance(policy, Plan) or (isinstance(policy, Planner) and policy.given)
    refused = report.guard.refused and "labels" in (reason.code for reason in report.guard.reasons)
    free = not planned and report.ran.used is None and not report.episode.continues
    return refused and free and report.episode.shots.min() >= LEAST_SHOTS


def _right(report: NetworkReport) -> tuple[Halves, float]:
    """What the adaptation to a half got right of the other half, and its seconds."""
    truth, (adapted, cosine, _) = report.episode.query.labels, report.answers.raw
    right = (int((labels_of(answers) == truth).sum()) for answers in (adapted, cosine))
    macs, seconds = _cost(report)
    return Halves(len(truth), *right, macs), seconds


def _cost(report: NetworkReport) -> tuple[int, float]:
    """MACs and seconds."""
    return report.delta.report["macs"]["total"], sum(report.ran.seconds.values())
