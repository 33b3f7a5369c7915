"""`adapt` for a committee: its members one after another in the same bytes, then one head for all of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tinytrain.base.errors import one_line
from tinytrain.delta.delta import Changes, Delta
from tinytrain.episode.episode import Episode
from tinytrain.guard.guard import ADAPTED, HEAD, Evidence, Verdict, judge, vetoed
from tinytrain.heads.head import Head
from tinytrain.heads.leave_one_out import macs
from tinytrain.heads.registry import find_head
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.pipeline import second_look as adapting
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.plan import Plan
from tinytrain.planner.committee import CommitteePlanner
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.report.committee import CommitteeReport, together
from tinytrain.report.report import NetworkReport, Report
from tinytrain.runtime.answers import Answers, labels_of
from tinytrain.runtime.device import Clock, Device
from tinytrain.runtime.joint import JointFitting, seconds_of_head
from tinytrain.runtime.time_budget import late

LEAST = 1e-3  # seconds for the members, if the head takes all


def adapt(
    network: Network | Committee,
    episode: Episode,
    budget: Budget | None = None,
    policy: str | Policy | Plan | Planner | CommitteePlanner = "tinytrain",
    seed: int = 0,
    device: Device | None = None,
    force: bool = False,
    train: bool | None = None,
) -> Report:
    """Adapt `network` as `pipeline.second_look` does; of a committee its members one after another.

    Each member is adapted as it would be alone, whatever the others are; one whose training is not kept stays
    as it was. One head is fitted to the embeddings of all and judged like that of any adaptation. Arguments
    and errors are those of `pipeline.adapt`; a committee has no plan and takes no replay memory.
    """
    if not isinstance(network, Committee):
        return adapting.adapt(network, episode, budget, policy, seed, device, force, train)
    planner, device = policy, device or Device()
    if not isinstance(policy, CommitteePlanner):
        planner = CommitteePlanner(network, TaskShape.of(episode), policy, budget)
    alone = replace(episode, query=episode.query.take([]))
    members, reports, seconds = planner.of(TaskShape.of(alone)).members, [], planner.budget.seconds
    left = seconds and seconds - seconds_of_head(device, network, episode.support)
    for k, member in enumerate(members):
        if left is not None:  # each has its part of what those before it and the head leave
            share = member.network.macs / sum(other.network.macs for other in members[k:])
            member = member.within(max(left, LEAST) * share)
        reports.append(adapting.adapt(member.network, alone, None, member, seed, device, force, train))
        left = left and left - reports[-1].ran.used
    clock = device.clock()
    with np.errstate(all="ignore"):
        delta, guard, answers, head = _with_joint_head(planner, episode, reports, device, clock, force)
    ran = together(reports, clock)
    warnings = dict.fromkeys((*_warnings(reports), *(late(ran.used, seconds) if seconds else ())))
    outcome, own = (ran, answers, delta, guard, tuple(warnings)), {"members": tuple(reports), "head": head}
    return CommitteeReport(network, episode, *outcome, **own).sealed()


def _warnings(reports: Sequence[NetworkReport]) -> Iterator[str]:
    """What all members say, once; what only some say, with their names."""
    said = Counter(warning for report in reports for warning in report.warnings)
    for report in reports:
        name = one_line(report.network.name, 100)
        yield from (w if said[w] == len(reports) else f"{name}: {w}" for w in report.warnings)


def _with_joint_head(
    planner: CommitteePlanner,
    episode: Episode,
    reports: list[NetworkReport],
    device: Device,
    clock: Clock,
    force: bool,
) -> tuple[Delta, Verdict, Answers, tuple[int, int]]:
    """The delta with one head for what the `reports` kept, the verdict on it, and what it answers.

    Last come the bytes and the MACs that this took.
    """
    network, method = planner.network, find_head(reports[0].plan.recipe.head)
    changes = tuple(_changes(report.delta) for report in reports)
    as_it_was = tuple(replace(part, slices=()) for part in changes)
    trained = [report for report in reports if report.delta.slices]
    steps = max(report.plan.recipe.n_steps for report in reports)
    fitting = JointFitting(device, network, episode, method, planner.budget.memory)
    raw = np.empty((3, len(episode.query)), np.int32)

    def answered(rows: np.ndarray, *heads: Head) -> None:
        clock.lap("head")
        fitting.answer(rows, *heads)
        clock.lap("queries")

    fitting.look_with(as_it_was)
    cosine, head = fitting.before()
    answered(raw[1:], cosine, head)
    if trained:
        fitting.look_with(changes)
        del head  # its arrays, before there are others
        head = fitting.after(steps)
    answered(raw[:1], head)
    guard = _verdict(fitting, reports, head.is_finite(), episode, force)
    guard = vetoed(guard, *_right(raw, episode), force)
    withheld = None
    if trained and guard.kept != ADAPTED:
        fitting.look_with(as_it_was)
        withheld = labels_of(raw[0]).copy()
        del cosine, head
        cosine, head = fitting.before()
        raw[0] = raw[2]
    prototypes = guard.refused and not fitting.is_better_than_prototypes()
    if prototypes:
        head = cosine
    elif guard.refused:
        guard = replace(guard, kept=HEAD)
    delta = Delta(
        network.digest, network.name, (), fitting.kept(head), episode.class_names, {},
        members=changes if guard.kept == ADAPTED else as_it_was,
    )  # fmt: skip
    clock.lap("head")
    return delta, guard, Answers(raw, not prototypes, withheld), (fitting.arena, fitting.macs)


def _changes(delta: Delta) -> Changes:
    return Changes(delta.backbone, delta.backbone_name, delta.slices, **delta.backend_fields)


def _right(raw: np.ndarray, episode: Episode) -> tuple[np.ndarray, np.ndarray]:
    """Whether the head alone, and what was adapted, are right on each query that decides, (n,) both."""
    n = len(episode.query) if episode.decides else 0
    return tuple(labels_of(raw[row, :n]) == episode.query.labels[:n] for row in (2, 0))


def _verdict(
    fitting: JointFitting, reports: Sequence[NetworkReport], finite: bool, episode: Episode, force: bool
) -> Verdict:
    """The verdict on the joint head. If nothing that was trained is kept, the first member says why."""
    trained = [report for report in reports if report.delta.slices]
    losses = [float(np.mean(step)) for step in zip(*(report.ran.losses for report in trained), strict=False)]
    steps, after = max(r.plan.recipe.n_steps for r in reports), fitting.rows_after if trained else None
    cost = macs(len(fitting.labels), len(fitting.room), episode.n_way, fitting.size)
    rows = fitting.rows, after, cost * (2 if trained else 1), fitting.repeats
    # Of labels the members have judged, each by itself: one that was trained vouches for them.
    given = Evidence(losses, steps, finite, *rows), episode.support, episode.class_names
    found = judge(*given, force, labels_hold=True)
    if trained:
        forced = [report.guard.reasons for report in trained if report.guard.forced]
        if found.kept == ADAPTED and len(forced) == len(trained):  # none vouches
            reasons = tuple(dict.fromkeys((*forced[0], *found.reasons)))
            found = replace(found, forced=True, reasons=reasons)
        return found
    refused = all(report.guard.refused for report in reports)
    return replace(found, kept=HEAD, refused=refused, reasons=reports[0].guard.reasons)
