"""The plans of both precisions for one budget, side by side, for ``tinytrain plan``."""

from dataclasses import dataclass, replace

from tinytrain.base.answer import with_old_keys
from tinytrain.base.errors import BudgetError, UsageError

OTHER = {"float32": "int8", "int8": "float32"}
FITS = "all that the policy chooses can be trained inside the budget"


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan, what made it, and the seconds that a MAC took where scores were measured (None: nowhere)."""

    planner: object
    plan: object
    scores: object
    seconds_of_mac: float | None


def planned(network, episode, policy, budget, seed: int) -> Planned:
    """The plan of an adaptation. Raises what `Planner` raises."""
    from tinytrain.plan.budget import TaskShape
    from tinytrain.planner.planner import Planner
    from tinytrain.runtime.device import Device
    from tinytrain.runtime.time_budget import expected, in_time

    planner = Planner(network, TaskShape.of(episode), policy, budget)
    with Device().open(network, episode, seed) as run:
        probe = planner.probe()
        scores, seconds = run.measure_fisher(probe), None
        if probe is not None:  # once more, now that kernels are compiled and loaded
            first = run.clock.seconds["probe"]
            run.limit(planner.seconds)
            scores = run.measure_fisher(probe)
            seconds = (run.clock.seconds["probe"] - first) / scores.macs if scores.macs else None
        planner = in_time(planner, scores, run.time)
        plan = planner.plan(scores)
        if run.time:
            plan = expected(plan, planner.program(plan), run.time)
        return Planned(planner, plan, scores, seconds)


def compared(network, episode, policy, budget, seed: int, taken: Planned) -> dict:
    """What `taken` and the plan of the other precision come to, and why it is the one that is taken."""
    own = taken.plan.recipe.precision
    rows = {own: _row(network, taken)}
    other = replace(budget, precision=OTHER[own])
    try:
        rows[OTHER[own]] = _row(network, planned(network, episode, policy, other, seed))
    except (BudgetError, UsageError) as error:
        needs = getattr(error, "smallest", None)
        rows[OTHER[own]] = {"refused": error.code, "why": error.message, "needs": needs}
    return {"taken": own, "why": _why(budget.precision, own, rows), **{p: rows[p] for p in OTHER}}


def _row(network, found: Planned) -> dict:
    from tinytrain.plan.costs import n_trained
    from tinytrain.program.mac_counts import macs_by_part

    plan = found.plan
    updates = plan.recipe.updates
    executed = sum(macs_by_part(found.planner.program(plan)).values())
    facts = {
        "arena": plan.cost.arena,
        "layers": sum(u.layer < len(network.layers) for u in updates),
        "modules": sum(u.layer >= len(network.layers) for u in updates),
        "channels": sum(len(u.channels) for u in updates),
        "trained_parameters": n_trained(network, updates),
        "backward_per_query": plan.cost.macs_per_query,
        "executed": executed,
        "seconds": found.seconds_of_mac and executed * found.seconds_of_mac,
    }
    return with_old_keys(facts)


def _why(asked: str, own: str, rows: dict) -> str:
    if asked != "auto":
        return f"--precision {asked} was given"
    if rows["int8"].get("refused") == "unsupported":
        return "the network or the policy cannot be trained in int8"
    return FITS if own == "float32" else f"in float32 not {FITS}"
