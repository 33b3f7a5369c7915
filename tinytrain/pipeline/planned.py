"""What an adaptation would train and cost, in several precisions side by side; nothing is trained."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from tinytrain.base.answer import with_old_keys
from tinytrain.base.errors import BudgetError, UsageError
from tinytrain.episode.episode import Episode
from tinytrain.plan.budget import AUTO
from tinytrain.plan.costs import n_trained
from tinytrain.plan.plan import Plan
from tinytrain.plan.published_costs import table_rows
from tinytrain.plan.scores import Scores
from tinytrain.planner.planner import Planner
from tinytrain.program.backends.registry import CHOSEN
from tinytrain.program.mac_counts import macs_by_part, stage_macs
from tinytrain.program.program import Program
from tinytrain.report import content
from tinytrain.runtime.device import Device
from tinytrain.runtime.time_budget import Speed, expected, in_time

FITS = "all that the policy chooses can be trained inside the budget"


@dataclass(frozen=True, eq=False)
class Planned:
    """The `plan` of an adaptation, the `planner` that made it, and the `scores` of the channels it chose by.

    `asked` is the planner of what was asked for: with a time limit, `planner` may have fewer MACs.
    `seconds_of_mac` is what a MAC took where scores were measured (None: nowhere).
    """

    episode: Episode
    seed: int
    asked: Planner
    planner: Planner
    plan: Plan
    scores: Scores | None
    seconds_of_mac: float | None

    @cached_property
    def program(self) -> Program:
        """The program that an adaptation by this plan runs."""
        return self.planner.program(self.plan)

    def to_json(self) -> dict:
        """What ``tinytrain plan --json`` prints, without warnings. Also plans other precisions."""
        network, plan, scores, program = self.planner.network, self.plan, self.scores, self.program
        advice = self.planner.advice(scores)
        return {
            "policy": plan.policy,
            "backbone": network.name,
            "backbone_digest": network.digest,
            "episode": content.describe_episode(self.episode),
            "network": {
                "layers": len(network.layers),
                "parameters": network.n_weights + sum(layer.cout for layer in network.layers),
            },
            "memory": {**content.memory(network, plan, program), "smallest_budget": advice["smallest"]},
            "advice": advice,
            "macs": content.planned_macs(network, plan),
            "similarity": content.similarity(scores),
            "selection": content.selection(network, plan.recipe, scores),
            "resources": content.describe_resources(plan),
            "accounting": table_rows(network),
            "arena_table": program.table(),
            "plan": plan.to_json(),
            "precisions": self.precisions(),
        }

    def precisions(self) -> dict:
        """What this plan and those of the precisions that `auto` chooses among come to; why this is taken."""
        own = self.plan.recipe.precision
        rows = {backend.name: {} for backend in CHOSEN} | {own: self._row()}
        for name in [name for name in rows if name != own]:
            other = self.asked.of(budget=replace(self.asked.budget, precision=name))
            try:
                rows[name] = planned(self.episode, other, self.seed)._row()
            except (BudgetError, UsageError) as error:
                needs = getattr(error, "smallest", None)
                rows[name] = {"refused": error.code, "why": error.message, "needs": needs}
        return {"taken": own, "why": self._why(own, rows), **rows}

    def _row(self) -> dict:
        plan, layers = self.plan, len(self.planner.network.layers)
        updates, executed = plan.recipe.updates, sum(macs_by_part(self.program).values())
        facts = {
            "arena": plan.cost.arena,
            "layers": sum(u.layer < layers for u in updates),
            "modules": sum(u.layer >= layers for u in updates),
            "channels": sum(len(u.channels) for u in updates),
            "trained_parameters": n_trained(self.planner.network, updates),
            "backward_per_query": plan.cost.macs_per_query,
            "executed": executed,
            "seconds": self.seconds_of_mac and executed * self.seconds_of_mac,
        }
        return with_old_keys(facts)

    def _why(self, own: str, rows: dict) -> str:
        if (asked := self.asked.budget.precision) != AUTO:
            return f"--precision {asked} was given"
        if refused := [name for name, row in rows.items() if row.get("refused") == "unsupported"]:
            return f"the network or the policy cannot be trained in {refused[0]}"
        first = CHOSEN[0].name
        return FITS if own == first else f"in {first} not {FITS}"


def planned(episode: Episode, planner: Planner, seed: int = 0) -> Planned:
    """The plan of an adaptation to `episode`, for whose sizes `planner` is. Raises what it raises.

    Channels are scored once. The speed of this machine is measured on all images but the first, in which
    kernels are loaded.
    """
    with Device().open(planner.network, episode, seed) as run:
        probe = planner.probe()
        run.limit(planner.seconds or math.inf)
        scores, speed = run.measure_fisher(probe), run.time.speed
        chosen = in_time(planner, scores, run.time) if planner.seconds else planner
        plan = chosen.plan(scores)
        if planner.seconds:
            plan = expected(plan, chosen.program(plan), run.time)
    seconds = speed and _seconds_of_mac(probe, speed)
    return Planned(episode, seed, planner, chosen, plan, scores, seconds)


def _seconds_of_mac(probe: Program, speed: Speed) -> float:
    macs = {stage.name: stage_macs(probe, stage) for stage in probe.stages}
    total = macs["prototypes"] * speed.forward + macs["fisher"] * speed.gradients
    return total / sum(macs.values())
