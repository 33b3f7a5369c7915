"""The whole chain on one screen: Fisher scoring, plan, arena, training, heads, verdict, report."""

from tinytrain.episode.episode import Episode
from tinytrain.guard.guard import Evidence, judge, no_gain, vetoed
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.plan import Plan
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.report.report import NetworkReport
from tinytrain.runtime.device import Device
from tinytrain.runtime.time_budget import in_time


def adapt(
    network: Network,
    episode: Episode,
    budget: Budget | None = None,
    policy: str | Policy | Plan | Planner = "tinytrain",
    seed: int = 0,
    device: Device | None = None,
    force: bool = False,
    train: bool | None = None,
    labels_hold: bool = False,
) -> NetworkReport:
    """Adapt `network` to `episode` inside `budget`; the network itself is not changed.

    `policy` is a name, a `Policy`, or a `Plan`, which is obeyed and whose budget is the default one; or a
    `Planner` of these images, whose budget counts. `device` (default: this computer) is what it runs on.
    The result is `report.delta`; `report.guard.kept` says what it is: adapted, or for the network as it was a
    new head alone or cosine prototypes. `train`: None trains unless that would not help. `force` trains, and
    keeps all that can be kept. `labels_hold`: labels are right, even if they look wrong.
    Raises BudgetError if nothing fits, InputError for an unsuitable network, plan or images, UsageError for
    an unknown policy, AdaptationRefusedError if even the network as it is gives NaN or infinity.
    """
    task = TaskShape.of(episode)
    planner = policy.of(task) if isinstance(policy, Planner) else Planner(network, task, policy, budget)
    with (device or Device()).open(network, episode, seed) as run:
        run.limit(planner.seconds, planner.budget.seconds)
        scores = run.measure_fisher(planner.probe())
        planner = in_time(planner, scores, run.time)
        plan = planner.plan(scores)
        program, warnings = planner.program(plan), planner.warnings(plan, scores)
        planner.programs.forget()  # what else was compiled takes memory beside the arena
        run.load(program)
        run.cache_features()
        run.fit_heads()
        why_not = run.doubted(no_gain) if train is None and not (force or planner.given) else None
        losses = run.train(train is not False and not why_not)
        plan, program = run.as_trained(plan, program)
        delta = run.result()
        run.predict(delta)
        evidence = Evidence(losses, plan.recipe.n_steps, run.is_finite, *run.leave_one_out(), why_not)
        # Last of all: what the verdict names takes memory that no plan knows of.
        guard = judge(evidence, episode.support, episode.class_names, force, labels_hold)
        delta, answers, guard = run.keep(delta, vetoed(guard, *run.right(), force))
        outcome = run.facts(), answers, delta, guard, (*warnings, *run.warnings())
    return NetworkReport(network, episode, *outcome, plan=plan, program=program, scores=scores).sealed()
